"""Columns with any name and of any Arrow type: exactly their values, or an error that names column and type."""

import datetime
import random
import string
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pytest

from rowmill import Dataset, Workflow, ops
from rowmill.errors import ColumnError, DtypeError, RowmillError
from rowmill.loader.torch import Loader, TorchAsyncItr
from rowmill.report import of_dataset
from tests.counts import hostile

pytestmark = pytest.mark.timeout(600)
NAMES = [
    "^a.*$", "ab", "*", "", "a" * 5000, "🦊", "^.*$", "a b", "^a", "$", "a.*", "^$", "^(ab|abc)$", "rows", "count",
    "values", "len", "index", "literal", "column_0", "a\nb", "a\x00b", "^[a$", "x__null", "__mask", "x__values",
]  # fmt: skip
ROWS = 40


def table(names):
    return pl.DataFrame({name: np.arange(ROWS) * 1000 + i for i, name in enumerate(names)})


def loaded(dataset, names, **options):
    batches = [features for features, _ in Loader(dataset, 16, columns=names, shuffle=True, **options)]
    return {name: np.sort(np.concatenate([batch[name].numpy() for batch in batches])) for name in names}


def is_exact(found, frame):
    for name in frame.columns:
        assert np.array_equal(found[name], frame[name].to_numpy()), name


def to_parquet(frame, folder, **options):
    Dataset(frame).to_parquet(folder / "out", **options)
    return Dataset(folder / "out")


WAYS = {
    "a frame": lambda frame, folder: Dataset(frame),
    "a query": lambda frame, folder: Dataset(frame.lazy()),
    "an Arrow table": lambda frame, folder: Dataset(frame.to_arrow()),
    "arrays": lambda frame, folder: Dataset({name: frame[name].to_numpy() for name in frame.columns}),
    "pandas": lambda frame, folder: Dataset(frame.to_pandas()),
    "written": lambda frame, folder: to_parquet(frame, folder),
    "written by key": lambda frame, folder: to_parquet(frame, folder, partition_on=[frame.columns[0]]),
    "other types": lambda frame, folder: Dataset(frame, dtypes=dict.fromkeys(frame.columns[::2], "int32")),
    "joined": lambda frame, folder: Dataset.merge(
        Dataset(frame), Dataset(frame.select(pl.nth(0))), on=frame.columns[0], how="left"
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_names_are_exact(tmp_path, way):
    frame = table([name for name in NAMES if "\x00" not in name or way in ("a frame", "arrays", "other types")])
    dataset = WAYS[way](frame, tmp_path)
    is_exact({n: np.sort(v.to_numpy()) for n, v in dataset.to_polars().to_dict().items()}, frame)
    is_exact(loaded(dataset, frame.columns), frame)


def test_names_of_any_characters(tmp_path, tried):
    dice = random.Random(4)
    alphabet = "^$*.ab[]()|\\+?{}_- " + string.ascii_letters[:4]
    for number in range(hostile(20, 400)):
        names = ["".join(dice.choices(alphabet, k=dice.randrange(6))) for _ in range(8)]
        names += [f"^{name}$" for name in names[:3]]
        frame = table(list(dict.fromkeys(names)))
        dataset = Dataset(frame) if number % 2 else to_parquet(frame, tmp_path / str(number))
        options = {"nulls": 0} if number % 3 else {"cache": str(tmp_path / "cache")}
        is_exact(loaded(dataset, frame.columns, **options), frame)
        tried("tables with odd names")


def test_patterns_in_each_use_of_a_column():
    frame = table(["^a.*$", "ab", "*", "a"])
    found = list(TorchAsyncItr(Dataset(frame), cats=["^a.*$", "*"], conts=["^a.*$"], labels=["*"], batch_size=ROWS))
    cats, conts, labels = (part.numpy() for part in found[0])
    assert np.array_equal(cats[:, 0], frame["*"].to_numpy()) and np.array_equal(cats[:, 1], frame["^a.*$"].to_numpy())
    assert np.array_equal(conts[:, 0], frame["^a.*$"].to_numpy()) and np.array_equal(labels, frame["*"].to_numpy())
    weighed = Loader(Dataset(frame.with_columns(pl.lit(1).alias("^a.*$"))), 8, weights="^a.*$", columns=["ab"])
    assert sum(len(features["ab"]) for features, _ in weighed) == ROWS
    balanced = Loader(Dataset(frame.with_columns(pl.lit(1).alias("count"))), 8, balance="count", columns=["ab"])
    assert sum(len(features["ab"]) for features, _ in balanced) == ROWS
    lists = frame.with_columns(pl.concat_list(pl.col("ab"), pl.col("a")).alias("^b.*$")).with_columns(
        pl.when(pl.arange(ROWS) > 5).then(pl.col("a")).alias("^n.*$")
    )
    ((features, _),) = Loader(Dataset(lists), ROWS, shuffle=False, nulls={"^n.*$": "mask"})
    assert features["^b.*$__values"].tolist() == lists["^b.*$"].alias("b").explode().to_list()
    assert features["^n.*$__null"].tolist() == lists["^n.*$"].alias("n").is_null().to_list()
    assert [column.name for column in of_dataset(Dataset(lists), "frame").table.columns] == lists.columns


LISTS = pl.DataFrame({"x": [[1, 2], [], [3]], "y": [1, 2, 3]})


@pytest.mark.parametrize("own", ["x__values", "x__offsets"])
def test_a_column_named_like_a_part_of_a_list_is_refused(own):
    frame = LISTS.with_columns(pl.Series(own, [7, 8, 9]))
    with pytest.raises(ColumnError, match=f"{own}.*rename the column, or leave it out"):
        Loader(Dataset(frame), 2)
    ((features, _),) = Loader(Dataset(frame), 3, columns=["y", own], shuffle=False)  # the list is not delivered
    assert features[own].tolist() == [7, 8, 9]
    ((features, _),) = Loader(  # nor is it in parts
        Dataset(frame), 3, shuffle=False, sparse_names=["x"], sparse_max={"x": 2}, sparse_as_dense=True
    )
    assert features[own].tolist() == [7, 8, 9] and features["x"].tolist() == [[1, 2], [0, 0], [3, 0]]


def test_a_column_named_like_the_mask_is_refused_where_there_is_a_mask():
    frame = LISTS.select("y", pl.col("y").alias("__mask"))
    with pytest.raises(ColumnError, match=r"__mask.*rename the column"):
        Loader(Dataset(frame), 2, last="pad")
    ((features, _),) = Loader(Dataset(frame), 3, shuffle=False)
    assert features["__mask"].tolist() == [1, 2, 3]


def test_own_columns_that_look_like_a_list_are_not_taken_for_one():
    frame = pl.DataFrame({"c__values": [1, 2, 3], "c__offsets": [4, 5, 6]})
    (batch,) = Loader(Dataset(frame), 3, shuffle=False, batch_format="tensordict")
    assert batch["c__values"].tolist() == [1, 2, 3] and batch["c__offsets"].tolist() == [4, 5, 6]


@pytest.mark.parametrize("backend", ["jax", "tensorflow"])
def test_other_loaders_refuse_the_same(backend):
    module = pytest.importorskip(f"rowmill.loader.{backend}")
    frame = LISTS.with_columns(pl.Series("x__values", [7, 8, 9]))
    with pytest.raises(ColumnError, match="x__values"):
        module.Loader(Dataset(frame), 2)
    with pytest.raises(ColumnError, match="__mask"):
        module.Loader(Dataset(LISTS.select("y", pl.col("y").alias("__mask"))), 2, last="pad")


D = Decimal
MOMENT = (1, 2, 3)
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([7, 8]))
TYPES = {
    "list of float16": pa.array([[1.5, 2], [], [3]], pa.list_(pa.float16())),
    "fixed list of float16": pa.array([[1.5, 2], [1, 1], [3, 3]], pa.list_(pa.float16(), 2)),
    "decimal32": pa.array([D("1.5"), None, D("2.5")], pa.decimal32(5, 2)),
    "decimal64": pa.array([D("1.5"), None, D("2.5")], pa.decimal64(12, 2)),
    "decimal128": pa.array([D("1.5"), None, D("2.5")], pa.decimal128(30, 2)),
    "decimal256": pa.array([D("1.5"), D(3), D("2.5")], pa.decimal256(60, 2)),
    "list of decimal256": pa.array([[D("1.5")], [], []], pa.list_(pa.decimal256(60, 2))),
    "struct of decimal256": pa.array([{"a": D("1.5")}] * 3, pa.struct([("a", pa.decimal256(60, 2))])),
    "dictionary of decimal256": pa.DictionaryArray.from_arrays(
        pa.array([0, 1, 0], pa.uint8()), pa.array([D(1), D(2)], pa.decimal256(60, 2))
    ),
    "decimal of hundreds": pa.array([D(1200)] * 3, pa.decimal128(5, -2)),
    "lists of length 0": pa.array([[], [], []], pa.list_(pa.int64(), 0)),
    "list of lists of length 0": pa.array([[[]], [], [[], []]], pa.list_(pa.list_(pa.int64(), 0))),
    "binary of length 0": pa.array([b"", b"", b""], pa.binary(0)),
    "run-end encoded": RUNS,
    "list of run-end encoded": pa.ListArray.from_arrays([0, 1, 2, 3], RUNS),
    "string view": pa.array(["a", None, "b" * 30], pa.string_view()),
    "binary view": pa.array([b"a", None, b"b" * 30], pa.binary_view()),
    "list view": pa.array([[1, 2], [], [3]], pa.list_view(pa.int64())),
    "large list view": pa.array([[1, 2], [], [3]], pa.large_list_view(pa.int64())),
    "list of list view": pa.array([[[1, 2]], [], [[3]]], pa.list_(pa.list_view(pa.int64()))),
    "interval": pa.array([MOMENT] * 3, pa.month_day_nano_interval()),
    "list of intervals": pa.array([[MOMENT], [], [MOMENT]], pa.list_(pa.month_day_nano_interval())),
    "sparse union": pa.UnionArray.from_sparse(
        pa.array([0, 1, 0], pa.int8()), [pa.array([1, 2, 3]), pa.array(["a", "b", "c"])]
    ),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 1, 0], pa.int8()), pa.array([0, 0, 1], pa.int32()), [pa.array([1, 2]), pa.array(["a"])]
    ),
    "time with an offset": pa.array([1, 2, 3], pa.int64()).cast(pa.timestamp("us", "+05:30")),
    "time on Mars": pa.array([1, 2, 3], pa.int64()).cast(pa.timestamp("us", "Mars/Phobos")),
    "seconds": pa.array([1, 2, 3], pa.int64()).cast(pa.timestamp("s")),
    "dictionary of integers": pa.array([10, 20, 10]).dictionary_encode(),
    "list of dates": pa.array([[datetime.date(2020, 1, 1)], [], []], pa.list_(pa.date32())),
    "list of uint64": pa.array([[2**64 - 1], [], [0]], pa.list_(pa.uint64())),
    "struct of nothing": pa.array([{}] * 3, pa.struct([])),
    "tensors": pa.FixedShapeTensorArray.from_numpy_ndarray(np.arange(12).reshape(3, 4)),
}
ENTRANCES = ("table", "batch", "stream", "arrays", "pandas", "parquet", "ipc")


def given(entrance, array, folder):
    """The same column by one of the ways in; None where that format cannot hold it."""
    made = pa.table({"k": pa.array([1, 2, 3]), "x": array})
    try:
        if entrance == "table":
            return made
        if entrance == "batch":
            return made.to_batches()[0]
        if entrance == "stream":
            return pa.RecordBatchReader.from_batches(made.schema, made.to_batches())
        if entrance == "arrays":
            return {"k": made["k"], "x": array}
        if entrance == "pandas":
            return made.to_pandas(types_mapper=pd.ArrowDtype)
        path = folder / f"x.{'arrow' if entrance == 'ipc' else entrance}"
        if entrance == "parquet":
            pq.write_table(made, path)
        else:
            with pa.ipc.new_file(path, made.schema) as writer:
                writer.write_table(made)
    except (pa.ArrowException, OSError, NotImplementedError):
        return None
    return path


def pylist(array):
    try:
        return array.to_pylist()
    except (pa.ArrowException, KeyError, ValueError):  # a time zone that nobody knows
        return array.cast(pa.timestamp("us", "UTC")).to_pylist()


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.filterwarnings("ignore")
def test_values_are_exact_or_refused_by_name(tmp_path, kind, entrance):
    array = TYPES[kind]
    source = given(entrance, array, tmp_path)
    if source is None:
        pytest.skip("no such file")
    try:
        dataset = Dataset(source)
        found = dataset.to_polars()
    except DtypeError as error:
        assert "'x'" in str(error)
        return
    assert found["k"].to_list() == [1, 2, 3]
    assert found["x"].to_list() == pylist(array)
    try:
        ((features, _),) = Loader(dataset, 3, shuffle=False)
    except RowmillError as error:
        assert "'x'" in str(error)
        return
    values = features.get("x", features.get("x__values"))
    wanted = found["x"].explode() if "x__values" in features else found["x"]
    if wanted.dtype.is_temporal():
        wanted = wanted.to_physical()
    flat = wanted.drop_nulls() if "x__values" in features else wanted
    assert np.asarray(values).tolist() == flat.to_list()


def test_other_columns_of_a_file_can_be_read(tmp_path):
    for kind in ("decimal256", "struct of decimal256", "lists of length 0"):
        dataset = Dataset(given("parquet", TYPES[kind], tmp_path))
        assert loaded(dataset, ["k"])["k"].tolist() == [1, 2, 3]
        with pytest.raises(DtypeError, match="'x'"):
            Loader(dataset, 2)
        with pytest.raises(DtypeError, match="'x'"):
            dataset.to_parquet(tmp_path / "out")


def test_lists_of_float16_are_stored_exactly(tmp_path):
    frame = pl.DataFrame({"x": pl.Series([[1.5, -0.0], [], [65504.0]], dtype=pl.List(pl.Float16))})
    for _ in range(2):
        loader = Loader(Dataset(frame), 3, shuffle=False, cache=str(tmp_path / "cache"))
        for _ in range(2):
            ((features, _),) = loader
            assert features["x__values"].tolist() == [1.5, -0.0, 65504.0]
            assert features["x__offsets"].tolist() == [0, 2, 2, 3]


@pytest.mark.parametrize(
    "values",
    [[1, "a"], [object()], [{"a": 1}, 2], np.array([1 + 2j]), np.zeros(1, "V8"), [b"a", "a"], [2**200], [[1], ["a"]]],
    ids=["mixed", "objects", "dicts", "complex", "void", "bytes and strings", "huge", "nested mixed"],
)
def test_arrays_that_are_no_column(values):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            dataset = Dataset({"x": values})
            list(Loader(dataset, 2))
        except RowmillError as error:
            assert "'x'" in str(error)


def test_a_name_that_no_file_can_hold(tmp_path):
    with pytest.raises(ColumnError, match="NUL"):
        Dataset(table(["a", "a\x00b"])).to_parquet(tmp_path / "out")
    frame = pl.DataFrame({"a\x00b": [[1], [], [2, 3]]})
    ((features, _),) = Loader(Dataset(frame), 3, shuffle=False)
    assert features["a\x00b__values"].tolist() == [1, 2, 3]


def test_names_that_are_used_inside_of_workflows_do_not_meet_the_users():
    """Each of these once gave other values without a word."""
    frame = pl.DataFrame({"k": [0, 1, 2, 1], "place": [50, 60, 70, 80]})
    extra = pl.DataFrame({"k": [2, 1, 0], "w": [1.0, 2.0, 3.0]})
    made = Workflow(["k", "place"] >> ops.JoinExternal(extra, on="k")).fit(frame).transform(frame)
    assert made["place"].to_list() == [50, 60, 70, 80] and made["w"].to_list() == [3.0, 2.0, 1.0, 2.0]

    values = [7, 7, 8, 8, 8, 9]
    frame = pl.DataFrame({"__count__": values, "other": values})
    for graph in (["__count__", "other"], [["__count__", "other"]]):
        with pytest.raises(ColumnError, match="rename it"):
            Workflow(graph >> ops.Categorify(encode_type="combo")).fit(frame)

    for name in ("t.all", "t.0", "t.sum", "__fold__"):
        frame = pl.DataFrame({name: [1, 1, 2], "t": [0.0, 1.0, 1.0]})
        with pytest.raises(ColumnError, match="rename the column"):
            Workflow([name] >> ops.TargetEncoding("t", kfold=2, drop_folds=False)).fit(frame)

    frame = pl.DataFrame({"\0row": [50, 60, 70]})
    with pytest.raises(ColumnError, match="zero byte"):
        Workflow(["\0row"] >> ops.Clip(min_value=0)).fit(frame)
