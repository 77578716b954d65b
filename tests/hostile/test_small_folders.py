"""Small folders of saved workflows that once took gigabytes or minutes: refused, or done at once."""

import contextlib
import io
import json
import time

import polars as pl
import pyarrow.parquet as pq
import pytest

from rowmill import Workflow, ops
from rowmill.errors import ArgumentError, WorkflowFileError
from rowmill.graph.saved import save as saving
from tests.hostile.crafted import lit, seal

FRAME = pl.DataFrame({"a": range(30), "s": [f"word {i}" for i in range(30)]})
REPEATED = {"call": "repeat_by", "of": [{"column": "a"}, lit(6_000)]}
OF_ELEMENTS = {"call": "repeat_by", "of": [{"element": True}, lit(6_000)]}
PADDED = {"call": "str.pad_start", "of": [{"column": "s"}, lit(32_768)], "fill_char": "x"}
JOINED = {"call": "concat_str", "of": [{"column": "s"}] * 900, "separator": "x" * 1_000, "ignore_nulls": False}


def alias(expression, name):
    return {"call": "alias", "of": [expression], "name": name}


def crafted(folder, node, change, frame=FRAME, tables=None):
    """A saved workflow whose graph was changed by hand, with a manifest that fits."""
    Workflow(node).fit(frame).save(folder)
    graph = json.loads((folder / saving.GRAPH).read_text())
    change(graph)
    files = {f"tables/{path.name}": path.read_bytes() for path in sorted((folder / "tables").glob("*"))}
    files = {name: (tables or (lambda content: content))(content) for name, content in files.items()}
    files[saving.GRAPH] = json.dumps(graph).encode()
    for name, content in files.items():
        (folder / name).write_bytes(content)
    return seal(folder, files)


def applied(graph):
    return next(node for node in graph["nodes"] if node["kind"] == "Apply")


@pytest.mark.parametrize(
    "expressions",
    [
        [alias({"call": "list.agg", "of": [REPEATED, OF_ELEMENTS]}, "q")],
        [alias({"call": "list.eval", "of": [REPEATED, OF_ELEMENTS]}, "q")],
        [alias(PADDED, f"q{number}") for number in range(300)],
        [alias({"call": "list.join", "of": [{"call": "repeat_by", "of": [JOINED, lit(14)]}, lit("")],
                "ignore_nulls": True}, "q")],
    ],
    ids=["list.agg", "list.eval", "many outputs", "separator"],
)  # fmt: skip
def test_expressions_that_make_values_large(tmp_path, expressions):
    def change(graph):
        applied(graph)["settings"]["exprs"] = {"$tuple": [{"$expression": each} for each in expressions]}

    folder = crafted(tmp_path / "w", FRAME.columns >> ops.Expr(q=pl.col("a") + 1), change)
    with pytest.raises(WorkflowFileError, match=r"bytes each|times as large"):
        Workflow.load(folder)


def test_a_table_that_many_operators_share(tmp_path):
    frame = pl.DataFrame({"a": range(2_000_000)})

    def packed(content):
        table, out = pl.read_parquet(io.BytesIO(content)).to_arrow(), io.BytesIO()
        encoding = dict.fromkeys(table.column_names, "DELTA_BINARY_PACKED")
        pq.write_table(table, out, compression="zstd", use_dictionary=False, column_encoding=encoding)
        return out.getvalue()

    def change(graph):
        first, node = graph["nodes"][0], applied(graph)
        nodes, outputs = [first], []
        for number in range(100):
            nodes.append({**node, "parents": [0]})
            settings = {"postfix": f"_{number}"}
            nodes.append({"kind": "Apply", "operator": "Rename", "settings": settings, "parents": [len(nodes) - 1]})
            outputs.append(len(nodes) - 1)
        graph["nodes"] = [*nodes, {"kind": "Concat", "parents": outputs}]

    folder = crafted(tmp_path / "w", ["a"] >> ops.Categorify(), change, frame, packed)
    with pytest.raises(WorkflowFileError, match="max_bytes"):
        Workflow.load(folder)


def set_setting(name, value):
    def change(graph):
        applied(graph)["settings"][name] = value

    return change


CASES = {
    "boundaries": (lambda: ["a"] >> ops.Bucketize([1, 2]), set_setting("boundaries", list(range(100_000, 0, -1)))),
    "shifts": (lambda: ["a"] >> ops.DifferenceLag("s", shift=[1]), set_setting("shift", list(range(1, 40_000)))),
    "aggs": (lambda: ["a", "s"] >> ops.Groupby("s", aggs=["sum"]), set_setting("aggs", ["sum"] * 30_000)),
    "postfix": (lambda: ["a", "s"] >> ops.Rename(postfix="x"), set_setting("postfix", "x" * 14_000_000)),
}


@pytest.mark.parametrize("name", CASES)
def test_long_settings_take_no_time(tmp_path, name):
    node, change = CASES[name]
    folder = crafted(tmp_path / "w", node(), change)
    plain = crafted(tmp_path / "plain", node(), lambda graph: None)

    def seconds(path):
        start = time.process_time()
        with contextlib.suppress(WorkflowFileError):
            Workflow.load(path)
        return time.process_time() - start

    seconds(plain)
    assert seconds(folder) < 3.0 + 20 * seconds(plain)  # these took 20 to 60 s


def test_columns_named_twice_are_found_at_once(tmp_path):
    def change(graph):
        graph["columns"] = [{"name": "a", "dtype": "int64"}] * 100_000

    folder = crafted(tmp_path / "w", ["a"] >> ops.Clip(0, 5), change)
    with pytest.raises(WorkflowFileError, match="named twice"):
        Workflow.load(folder)


def test_more_shifts_than_anybody_needs_are_refused():
    with pytest.raises(ArgumentError, match="at most 1,000"):
        ops.DifferenceLag("s", shift=list(range(2_000)))
