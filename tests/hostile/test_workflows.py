"""Workflow folders made to harm, loaded and run in child processes: nothing runs, nothing is reached, nothing hangs.

Each ends in a workflow that works or in an error of Rowmill, within limits of time and memory.
"""

import json
import os
import queue
import subprocess
import sys
import threading

import polars as pl
import pytest

from rowmill import Workflow, ops
from rowmill.errors import ArgumentError, RowmillError, WorkflowFileError
from rowmill.graph.saved import save as saving
from rowmill.graph.saved.expression_table import TABLE
from rowmill.graph.saved.expressions import load_expression, save_expression
from tests.counts import hostile
from tests.hostile.crafted import Maker, lit, parquet, polars_expressions
from tests.hostile.expressions import EXPRESSIONS, FRAME
from tests.ops.samples import SAMPLES, table

SECONDS, MEGABYTES = 20, 1_000


class Child:
    """A process that loads one folder after the other; a new one takes over where one dies or hangs."""

    def __init__(self, scratch):
        self._scratch, self._process = scratch, None

    def _start(self):
        self._scratch.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.load_child", str(self._scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=(self._scratch / "errors").open("a"),
            text=True,
            bufsize=1,
            env={**os.environ, "RUST_BACKTRACE": "0"},
        )
        self._lines = queue.Queue()
        threading.Thread(target=self._read, args=(self._process.stdout, self._lines), daemon=True).start()
        assert self._line(120) == "ready", (self._scratch / "errors").read_text()[-3000:]

    def _line(self, seconds):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return "hangs"
        return json.loads(line) if line else "died"

    @staticmethod
    def _read(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put("")

    def run(self, folder):
        if self._process is None:
            self._start()
        self._process.stdin.write(f"{folder}\n")
        self._process.stdin.flush()
        first = self._line(SECONDS)
        ended = self._line(SECONDS) if isinstance(first, dict) else first
        if not isinstance(ended, dict):
            self.stop()
            return {"ended": ended, "kind": "", "events": [], "mb": 0, "s": 0}
        return ended

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def violation(found):
    bad = found["ended"] not in ("worked", "refused", "failed")
    return bad or found["events"] or found["mb"] > MEGABYTES or found["s"] > SECONDS


@pytest.mark.timeout(hostile(300, 2400))
def test_crafted_workflows_do_no_harm(tmp_path, tried):
    maker, child = Maker(tmp_path, seed=int(os.environ.get("ROWMILL_HOSTILE_SEED", "5"))), Child(tmp_path / "warm")
    bad, ended = [], {}
    try:
        for number in range(hostile(40, 2_000)):
            folder = maker.make(number)
            found = child.run(folder)
            ended[found["ended"]] = ended.get(found["ended"], 0) + 1
            kind = maker.KINDS[number % len(maker.KINDS)].__name__
            if violation(found):
                bad.append((kind, folder.name, found))
            elif not os.environ.get("ROWMILL_HOSTILE_KEEP"):
                subprocess.run(["rm", "-rf", folder, folder.with_suffix(".moved")], check=True)
    finally:
        child.stop()
    print(ended)
    tried("crafted workflows", sum(ended.values()))
    assert not bad, f"{len(bad)} of {sum(ended.values())}: " + "\n".join(map(str, bad[:20]))
    assert not maker.marker.exists()
    assert ended.get("refused", 0) > sum(ended.values()) / 4


def calls(data):
    if isinstance(data, dict):
        return (
            {data["call"]} - {None} | set().union(*map(calls, data.values()))
            if "call" in data
            else set().union(*map(calls, data.values()), set())
        )
    return set().union(*map(calls, data), set()) if isinstance(data, list) else set()


def test_every_entry_of_the_table_is_saved_loaded_and_computed(tmp_path):
    used = set().union(*(calls(save_expression(expr)) for expr in EXPRESSIONS))
    assert used == set(TABLE)
    for expr in EXPRESSIONS:
        workflow = Workflow(FRAME.columns >> ops.Expr(q=expr))
        wanted = workflow.transform(FRAME)
        workflow.save(tmp_path / "w")
        assert Workflow.load(tmp_path / "w").transform(FRAME).equals(wanted), expr


def test_no_expression_of_polars_is_read(tmp_path):
    """What Polars writes of each of its functions is refused as it is, in either place."""
    assert len(polars_expressions()) > 250
    maker = Maker(tmp_path, seed=1)
    for written in polars_expressions():
        with pytest.raises(WorkflowFileError):
            load_expression(written)
    graph, tables = maker.base("e0", FRAME.columns >> ops.Expr(q=EXPRESSIONS[0]), FRAME)
    graph["nodes"][-1]["settings"]["exprs"] = {"$tuple": [{"$expr": {"Column": "i"}}]}
    with pytest.raises(WorkflowFileError, match=r"format of Rowmill 0\.1\.0.*save it with this version"):
        Workflow.load(maker.write(graph, tables))


def test_what_cannot_be_saved_says_what_to_use_instead(tmp_path):
    for expr in (
        pl.col("i").map_elements(str),
        pl.col("i").rolling_mean(3),
        pl.all().abs(),
        pl.col("i").sum().over("s"),
    ):
        with pytest.raises(WorkflowFileError, match="LambdaOp with a named function"):
            Workflow(FRAME.columns >> ops.Expr(q=expr)).save(tmp_path / "w")
        assert not (tmp_path / "w").exists()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, -0.0, 5e-324, 2**53 + 1, -(2**63)])
def test_constants_are_exact(tmp_path, value):
    frame = pl.DataFrame({"f": [None, 1.0]})
    workflow = Workflow(["f"] >> ops.Expr(q=pl.col("f").fill_null(value), r=pl.lit(value) + pl.col("f") * 0))
    workflow.save(tmp_path / "w")
    wanted, made = workflow.transform(frame), Workflow.load(tmp_path / "w").transform(frame)
    assert made.equals(wanted) and made.schema == wanted.schema


def test_tables_are_never_read_from_a_path(tmp_path):
    """Paths, patterns and URLs in the settings that may be paths for a user."""
    other = tmp_path / "other.parquet"
    pl.DataFrame({"key": [1], "price": [2.0], "s": ["word 1"]}).write_parquet(other)
    maker = Maker(tmp_path, seed=1)
    for name, setting in (("JoinExternal", "df_ext"), ("Categorify given", "vocabs")):
        for given in (str(other), [str(other)], f"file://{other}", str(tmp_path / "*.parquet"), {"s": str(other)}):
            graph, tables = maker.base(name, SAMPLES[name], table(60))
            next(n for n in graph["nodes"] if n["kind"] == "Apply")["settings"][setting] = given
            with pytest.raises(WorkflowFileError, match=setting):
                Workflow.load(maker.write(graph, tables))


def test_places_to_write_are_neither_saved_nor_loaded(tmp_path):
    node = ["s"] >> ops.Categorify(out_path=str(tmp_path / "out"))
    Workflow(node).fit(table(60)).save(tmp_path / "w")
    assert str(tmp_path / "out") not in (tmp_path / "w" / saving.GRAPH).read_text()
    maker = Maker(tmp_path, seed=1)
    graph, tables = maker.base("Categorify", SAMPLES["Categorify"], table(60))
    next(n for n in graph["nodes"] if n["kind"] == "Apply")["settings"]["out_path"] = str(tmp_path / "written")
    loaded = Workflow.load(maker.write(graph, tables))
    loaded.fit(table(60))
    assert not (tmp_path / "written").exists()


def test_a_vocabulary_from_a_file_is_saved_with_the_workflow(tmp_path):
    pl.DataFrame({"s": ["word 1", "word 2"]}).write_parquet(tmp_path / "v.parquet")
    workflow = Workflow(["s"] >> ops.Categorify(vocabs={"s": str(tmp_path / "v.parquet")})).fit(table(60))
    workflow.save(tmp_path / "w")
    (tmp_path / "v.parquet").unlink()
    loaded = Workflow.load(tmp_path / "w")
    assert loaded.transform(table(60)).equals(workflow.transform(table(60)))
    assert loaded.fit(table(60)).transform(table(60)).equals(workflow.transform(table(60)))


def test_the_limit_can_be_raised(tmp_path):
    frame = pl.DataFrame({"s": [f"value {n}" for n in range(50_000)]})
    workflow = Workflow(["s"] >> ops.Categorify()).fit(frame)
    workflow.save(tmp_path / "w")
    with pytest.raises(WorkflowFileError, match=r"max_bytes=1,000,000 .*max_bytes='4GB'"):
        Workflow.load(tmp_path / "w", max_bytes=1_000_000)
    assert Workflow.load(tmp_path / "w", max_bytes="1GB").transform(frame).equals(workflow.transform(frame))
    with pytest.raises(ArgumentError, match="max_bytes"):
        Workflow.load(tmp_path / "w", max_bytes="much")


def test_short_files_that_stand_for_gigabytes_are_refused_before_they_are_read(tmp_path):
    maker = Maker(tmp_path, seed=1)
    bombs = {
        "rows": pl.DataFrame({"s": pl.repeat(1, 40_000_000, eager=True), "__count__": 1}),
        "texts": pl.DataFrame({"s": pl.repeat("x" * 100_000, 6_000, eager=True)}),
        "lists": pl.DataFrame({"s": pl.Series([["y" * 10_000] * 100]).new_from_index(0, 600)}),
    }
    for name, frame in bombs.items():
        graph, tables = maker.base("Categorify given", SAMPLES["Categorify given"], table(60))
        content = parquet(frame)
        assert len(content) < 2_000_000, name
        with pytest.raises(WorkflowFileError, match="max_bytes"):
            Workflow.load(maker.write(graph, {**tables, "tables/000000.parquet": content}))


@pytest.mark.parametrize("url", ["s3://bucket/w", "gs://bucket/w", "http://127.0.0.1:9/w"])
def test_urls_are_refused(tmp_path, monkeypatch, url):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="URL"):
        Workflow(["a"] >> ops.LogOp()).save(url)
    with pytest.raises(ArgumentError, match="URL"):
        Workflow.load(url)
    assert not list(tmp_path.iterdir())


def test_file_urls_are_local_paths(tmp_path):
    Workflow(["a"] >> ops.LogOp()).save(f"file://{tmp_path}/w")
    assert Workflow.load(f"file://{tmp_path}/w").output_node.label == "LogOp"
    assert (tmp_path / "w").is_dir()


NAMES = [
    "^a.*$",
    "ab",
    "*",
    "",
    "^.*$",
    "__row__",
    "__fold__",
    "__made_by_0__ab",
    "😀",
    "y" * 3_000,
    "a.b",
    "key",
]


@pytest.mark.parametrize("odd", [n for n in NAMES if n != "*"])
def test_operators_on_columns_with_odd_names(odd, tmp_path):
    frame = table(60)
    made = frame.rename({"a": odd}).with_columns(pl.lit("decoy").alias("axx"))
    for make in (
        lambda n: [n] >> ops.Normalize(),
        lambda n: [n, "c"] >> ops.Categorify(),
        lambda n: [[n, "s"]] >> ops.Categorify(encode_type="combo"),
        lambda n: [n] >> ops.FillMedian(add_binary_cols=True),
        lambda n: [n, "f"] >> ops.Dropna(),
        lambda n: [n, "f"] >> ops.Groupby([n], aggs={"f": "sum"}),
        lambda n: [n] >> ops.JoinGroupby(cont_cols=["b"], stats=["mean"]),
        lambda n: ["c"] >> ops.JoinGroupby(cont_cols=[n], stats=["mean", "std", "min"]),
        lambda n: [n] >> ops.TargetEncoding("t"),
        lambda n: ["s"] >> ops.TargetEncoding(n),
        lambda n: [n] >> ops.HashBucket(9),
        lambda n: [[n, "s"]] >> ops.HashedCross(9),
        lambda n: [n] >> ops.LambdaOp(double),
        lambda n: [n] >> ops.DifferenceLag("i"),
        lambda n: ["f"] >> ops.DifferenceLag(n),
        lambda n: [n, "f"] >> ops.Filter(pl.col("f") > 0),
        lambda n: [n] >> ops.ReduceDtypeSize(),
        lambda n: [n] >> ops.Bucketize([0, 10]),
        lambda n: [n] >> ops.NormalizeMinMax(),
        lambda n: (
            [n] >> ops.JoinExternal(pl.DataFrame({n: pl.Series([1, 2, 3], dtype=pl.Int32), "v": [1, 2, 3]}), on=n)
        ),
        lambda n: (
            [n] >> ops.JoinExternal(pl.DataFrame({n: pl.Series([1, 1, 3], dtype=pl.Int32), "v": [1, 2, 3]}), on=n)
        ),
    ):
        workflow = Workflow(make(odd)).fit(made)
        wanted = Workflow(make("a")).fit(frame).transform(frame)
        found = workflow.transform(made)
        assert [c.to_list() for c in found.get_columns()] == [c.to_list() for c in wanted.get_columns()]
        workflow.save(tmp_path / "w")
        again = Workflow.load(tmp_path / "w", functions={"double": double}).transform(made)
        assert again.equals(found)


def double(column):
    return column * 2


def test_untyped_errors_do_not_escape_when_the_table_is_not_known():
    """A loaded graph without columns is resolved when rows come."""
    with pytest.raises(RowmillError):
        Workflow(["a"] >> ops.Bucketize([1.0, lit("x")])).transform(pl.DataFrame({"a": [1]}))
