"""What every operator promises, whichever it is. A new operator is held to it by adding a sample."""

import pickle

import polars as pl
import pytest

import rowmill
from rowmill import Dataset, Workflow, ops
from rowmill.engines.engine import fold
from rowmill.graph.execution.fit_job import FitJob
from rowmill.graph.node import Apply, walk
from rowmill.sources.frames.frame_source import FrameSource, cut
from rowmill.sources.types import schema_of
from rowmill.statistics.median import Sketch
from tests.ops.samples import FUNCTIONS, SAMPLES, table

FRAME = table()
NAMES = sorted(SAMPLES)


def fitted(name: str, data=None) -> Workflow:
    return Workflow(SAMPLES[name]).fit(FRAME if data is None else data, threads=2)


def in_files(frame: pl.DataFrame, pieces: int, folder) -> Dataset:
    """The table in so many files, which are never joined to one fragment."""
    paths = [folder / f"{pieces}_{number}.parquet" for number in range(pieces)]
    for path, part in zip(paths, cut(frame.height, pieces), strict=True):
        frame[part.start : part.stop].write_parquet(path)
    return Dataset(paths)


def described(frame: pl.DataFrame):
    return [(c.name, c.dtype, c.is_list, c.width) for c in schema_of(dict(frame.schema))]


def predicted(workflow: Workflow):
    return [(c.name, c.dtype, c.is_list, c.width) for c in workflow.output_schema]


def test_every_operator_has_a_sample():
    used = {type(n.operator).__name__ for node in SAMPLES.values() for n in walk(node) if isinstance(n, Apply)}
    assert used == set(ops.OPERATORS)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_says_what_comes_out(name):
    workflow = fitted(name)
    for rows in (FRAME, FRAME.head(1), FRAME.head(0), FRAME.filter(pl.col("c").is_null())):
        made = workflow.transform(rows)
        assert described(made) == predicted(workflow)


@pytest.mark.parametrize("name", NAMES)
def test_the_schema_is_known_before_fitting(name):
    workflow = Workflow(SAMPLES[name]).fit_schema(Dataset(FRAME).schema)
    before = workflow.output_schema.column_names
    assert set(fitted(name).output_schema.column_names) <= set(before)


@pytest.mark.parametrize("name", NAMES)
def test_fitting_on_nothing_one_row_and_nulls(name):
    nulls = FRAME.with_columns(pl.lit(None, dtype=t).alias(n) for n, t in FRAME.schema.items() if n != "l")
    for data in (FRAME.head(0), FRAME.head(1), nulls):
        workflow = fitted(name, data)
        made = workflow.transform(FRAME)
        assert described(made) == predicted(workflow)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_learnt_does_not_depend_on_the_way(name, tmp_path):
    wanted = fitted(name)._fitted
    order = pl.Series(range(FRAME.height)).shuffle(seed=3)
    for pieces, threads, memory in ((1, 1, "1GB"), (7, 3, "1GB"), (12, 2, "20KB")):
        workflow = Workflow(SAMPLES[name]).fit(in_files(FRAME, pieces, tmp_path), threads=threads, memory=memory)
        assert workflow._fitted == wanted, (pieces, threads)
    if "TargetEncoding" not in name:  # folds go by the number of the row
        assert Workflow(SAMPLES[name]).fit(in_files(FRAME[order], 9, tmp_path))._fitted == wanted


@pytest.mark.parametrize("name", NAMES)
def test_merging_is_associative_and_survives_a_process(name):
    source = FrameSource(FRAME, 3)
    workflow = fitted(name)
    resolved = workflow._known.resolved
    for phase in resolved.phases():
        numbers = [resolved.number[id(node)] for node in phase]
        job = FitJob(source, workflow.output_node, Dataset(FRAME).schema, workflow._fitted, numbers)
        for index, statistic in enumerate(job.statistics):
            one, two, three = (pickle.loads(pickle.dumps(fold(job, [f])[index])) for f in cut(FRAME.height, 3))
            left = statistic.merge(statistic.merge(one, two), three)
            one, two, three = (fold(job, [f])[index] for f in cut(FRAME.height, 3))
            right = statistic.merge(one, statistic.merge(two, three))
            whole = fold(job, cut(FRAME.height, 1))[index]
            found = statistic.finish(left)
            assert_same(found, statistic.finish(right))
            assert_same(found, statistic.finish(whole))


def assert_same(left, right):
    one, two = (getattr(r, "frame", getattr(r, "groups", r)) for r in (left, right))
    if isinstance(one, pl.DataFrame):
        assert one.sort(one.columns).equals(two.sort(two.columns))
        assert getattr(left, "nulls", None) == getattr(right, "nulls", None)
    elif isinstance(left, Sketch):
        assert left.middle == right.middle
    else:
        assert left == right


@pytest.mark.parametrize("name", NAMES)
def test_saved_and_loaded_it_does_the_same(name, tmp_path):
    workflow = fitted(name)
    workflow.save(tmp_path / "w")
    (tmp_path / "w").rename(tmp_path / "moved")
    again = Workflow.load(tmp_path / "moved", functions=FUNCTIONS)
    assert again.output_schema == workflow.output_schema
    assert again.fingerprint() == workflow.fingerprint()
    assert again.transform(FRAME).equals(workflow.transform(FRAME))
    empty = Workflow(SAMPLES[name])
    empty.save(tmp_path / "unfitted")
    learnt = Workflow.load(tmp_path / "unfitted", functions=FUNCTIONS).fit(FRAME)
    assert learnt._fitted == workflow._fitted


@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_gives_the_rows_of_a_frame(name):
    workflow = fitted(name)
    step = workflow._known.step()
    data = Dataset(FRAME, npartitions=5 if step.program.row_for_row else 1)
    made = workflow.transform(data)
    assert isinstance(made, rowmill.Dataset)
    assert made.schema == workflow.output_schema
    whole = workflow.transform(
        FRAME, folds=step.program.numbered or workflow._known.step(training=True).program.numbered
    )
    assert made.to_polars().equals(whole)
    some = made.columns[-1:]
    assert made.to_polars(some).equals(whole.select(some))
    if step.program.row_for_row:
        slices = pl.concat([made.source.read(f.slice(0, f.rows // 2), made.columns) for f in made.fragments])
        wanted = [whole[f.start : f.start + f.rows // 2] for f in made.fragments]
        assert slices.equals(pl.concat(wanted))


ROW_FOR_ROW = [n for n in NAMES if Workflow(SAMPLES[n]).fit(FRAME)._known.step().program.row_for_row]


@pytest.mark.parametrize("name", ROW_FOR_ROW)
def test_single_rows_are_as_in_the_batch(name):
    workflow = fitted(name)
    whole = workflow.transform(FRAME, folds=False)
    for number in range(0, FRAME.height, 37):
        assert workflow.transform(FRAME[number]).equals(whole[number])
        assert workflow.transform(FRAME.row(number, named=True)) == whole.row(number, named=True)
