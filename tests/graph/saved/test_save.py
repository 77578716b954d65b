"""Saved workflows: whole or not there, moved, damaged, and hostile. Nothing in a folder can run."""

import json
import os
import random
import shutil
import subprocess
import sys
import textwrap

import polars as pl
import pytest

from rowmill import Workflow, ops
from rowmill.errors import ArgumentError, RowmillError, UnknownFunctionError, WorkflowFileError
from rowmill.graph.saved import load as loading
from rowmill.graph.saved import save as saving
from tests.counts import thorough
from tests.ops.samples import FUNCTIONS, SAMPLES, double, table

FRAME = table(60)


def big() -> Workflow:
    node = (
        SAMPLES["chain"] + SAMPLES["LambdaOp"] + SAMPLES["Expr"] + SAMPLES["TargetEncoding"] + SAMPLES["JoinExternal"]
    )
    return Workflow(node).fit(FRAME)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("saved") / "w"
    big().save(folder)
    return folder


def test_code_is_not_saved_on_request_either(tmp_path):
    with pytest.raises(ArgumentError, match=r"none is saved.*functions="):
        Workflow(["x"] >> ops.LogOp()).save(tmp_path / "saved", modules_byvalue="auto")
    assert not (tmp_path / "saved").exists()


def test_functions_are_given_again(tmp_path):
    workflow = Workflow(["a"] >> ops.LambdaOp(double))
    workflow.save(tmp_path / "w")
    with pytest.raises(UnknownFunctionError, match=r"functions=\{'double'"):
        Workflow.load(tmp_path / "w")
    again = Workflow.load(tmp_path / "w", functions={"double": lambda column: column * 3})
    assert again.transform(pl.DataFrame({"a": [2]}))["a"].to_list() == [6]  # the caller says what it is
    with pytest.raises(ArgumentError, match="lambda"):
        Workflow(["a"] >> ops.LambdaOp(lambda column: column)).save(tmp_path / "l")
    assert not (tmp_path / "l").exists()


def test_operators_of_other_makers_are_refused(tmp_path):
    class Mine(ops.LogOp):
        pass

    with pytest.raises(ArgumentError, match="Mine"):
        Workflow(["a"] >> Mine()).save(tmp_path / "w")


def test_expressions_that_hold_python_are_refused(tmp_path):
    with pytest.raises(WorkflowFileError, match="AnonymousFunction"):
        Workflow(["a"] >> ops.Expr(pl.col("a").map_batches(lambda s: s))).save(tmp_path / "w")


def test_expressions_survive(tmp_path):
    exprs = [
        pl.when(pl.col("f") > 0).then(pl.col("a")).otherwise(pl.lit(-1)).alias("w"),
        pl.col("s").str.to_uppercase().str.slice(0, 3).alias("u"),
        pl.col("a").is_in([1, 2, 3]).alias("i"),
        pl.col("f").round(1).clip(-1, 1).cast(pl.Float32).alias("r"),
        pl.concat_str([pl.col("s"), pl.lit("-"), pl.col("a").cast(pl.String)]).alias("t"),
        (pl.col("a").fill_null(0) % 7 == 3).alias("m"),
        pl.col("l").list.len().alias("n"),
        pl.max_horizontal("a", "f").alias("x"),
    ]
    workflow = Workflow(["a", "f", "s", "l"] >> ops.Expr(*exprs))
    wanted = workflow.transform(FRAME)
    workflow.save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w").transform(FRAME).equals(wanted)


def test_saving_again_replaces_it(tmp_path):
    Workflow(["a"] >> ops.LogOp()).save(tmp_path / "w")
    big().save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w", functions=FUNCTIONS).fitted
    Workflow(["a"] >> ops.LogOp()).save(tmp_path / "w")
    assert Workflow.load(tmp_path / "w").output_node.label == "LogOp"
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "precious").write_text("mine")
    with pytest.raises(ArgumentError, match="precious"):
        big().save(tmp_path / "other")


def test_killed_while_saving(tmp_path, tried):
    """A child that is killed at each of its file operations leaves the old folder or the new one."""
    code = textwrap.dedent("""
        import os, sys
        sys.path.insert(0, sys.argv[3])
        from rowmill import Workflow, ops
        from pathlib import Path
        import polars as pl
        left = int(sys.argv[2])
        def watch(event, arguments):
            global left
            if event in ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "shutil.rmtree") and saving:
                left -= 1
                if left == 0:
                    os.kill(os.getpid(), 9)
        saving = False
        workflow = Workflow(["a"] >> ops.Normalize()).fit({"a": [1.0, 2.0, 4.0]})
        sys.addaudithook(watch)
        saving = True
        workflow.save(sys.argv[1])
        saving = False
        print("saved")
    """)
    target = tmp_path / "w"
    Workflow(["a"] >> ops.LogOp()).save(target)
    for step in range(1, 400, thorough(7, 1)):
        done = subprocess.run(
            [sys.executable, "-c", code, target, str(step), os.getcwd()], capture_output=True, text=True
        )
        label = Workflow.load(target).output_node.label
        assert label in ("LogOp", "Normalize")
        if done.stdout == "saved\n":
            break
        assert done.returncode == -9, done.stderr
        tried("kills of processes that save a workflow")
    assert label == "Normalize"
    assert step > 5


def copied(saved, tmp_path, name="copy"):
    target = tmp_path / name
    shutil.copytree(saved, target)
    return target


def rewritten(folder, change):
    """The graph changed by a function, with a manifest that fits."""
    graph = json.loads((folder / saving.GRAPH).read_text())
    text = change(graph)
    text = json.dumps(graph) if text is None else text
    (folder / saving.GRAPH).write_text(text)
    resealed(folder, saving.GRAPH)
    return folder


def resealed(folder, name):
    manifest = json.loads((folder / saving.MANIFEST).read_text())
    content = (folder / name).read_bytes()
    manifest["files"][name] = {"bytes": len(content), "sha256": saving.sha256(content)}
    (folder / saving.MANIFEST).write_text(json.dumps(manifest))


def test_a_flipped_byte_anywhere_is_found(saved, tmp_path, tried):
    draw = random.Random(1)
    folder = copied(saved, tmp_path)
    files = [p for p in folder.rglob("*") if p.is_file() and p.name != saving.MANIFEST]
    for _ in range(thorough(150, 1_000)):
        path = draw.choice(files)
        content = bytearray(path.read_bytes())
        place = draw.randrange(len(content))
        old = content[place]
        content[place] ^= 1 << draw.randrange(8)
        path.write_bytes(content)
        with pytest.raises(WorkflowFileError, match="changed"):
            Workflow.load(folder, functions=FUNCTIONS)
        content[place] = old
        path.write_bytes(content)
        tried("flipped bits of saved workflows")
    Workflow.load(folder, functions=FUNCTIONS)


def test_a_later_version_says_so(saved, tmp_path):
    folder = rewritten(copied(saved, tmp_path), lambda graph: graph.update(version=99))
    with pytest.raises(WorkflowFileError, match="later"):
        Workflow.load(folder)


HOSTILE_VALUES = [
    {"$function": "os.system"}, {"$import": "os"}, {"$pickle": "gASV"}, {"$frame": -1}, {"$frame": 10**9},
    {"$frame": "0"},
    {"$frame": True}, {"$expr": {"AnonymousFunction": {"input": [], "function": [128, 4, 46]}}},
    {"$expr": {"Function": {"input": [{"Column": "a"}], "function": {"FfiPlugin": {"lib": "/tmp/x.so",
    "symbol": "f"}}}}},
    {"$expr": {"SubPlan": [{"Scan": "/etc/passwd"}, []]}}, {"$expr": "x"}, {"$expr": []}, {"$int": "9" * 10**5},
    {"$tuple": {"a": 1}}, {"$dict": [1, 2]}, {"$columns": []}, {"$int": "1", "$float": "2"},
    {"$float": "__import__('os')"},
    {"$dtype": "x" * 10**4}, [[[[[]]]]] , {"$array": 0, "shape": [10**12]}, "../../../etc/passwd", 1e308,
]  # fmt: skip


def applied(graph):
    return [node for node in graph["nodes"] if node["kind"] == "Apply"]


def hostile_folders(saved, tmp_path):
    """Dozens of folders that somebody could have made by hand, each sealed as if it were ours."""
    made = 0

    def folder():
        nonlocal made
        made += 1
        return copied(saved, tmp_path, f"h{made}")

    def set_setting(value):
        def change(graph):
            node = next(n for n in graph["nodes"] if n["kind"] == "Apply")
            node["settings"] = dict.fromkeys(node["settings"] or {"fill_val": 0}, value)

        return change

    for value in HOSTILE_VALUES:
        yield rewritten(folder(), set_setting(value))
    for operator in ("os.system", "Workflow", "__import__", "", None, 3, "Operator", "builtins.eval", "Categorify\0"):
        yield rewritten(
            folder(), lambda g, o=operator: [n.update(operator=o) for n in g["nodes"] if n["kind"] == "Apply"] and None
        )
    for parents in ([-1], [10**6], ["0"], [True], {"a": 1}, [0.0], [[0]]):
        yield rewritten(folder(), lambda g, p=parents: g["nodes"][-1].update(parents=p))
    yield rewritten(folder(), lambda g: g.update(nodes=[]))
    yield rewritten(folder(), lambda g: g.update(nodes={"a": 1}))
    yield rewritten(folder(), lambda g: g["nodes"].append({"kind": "Apply", "parents": [0]}))
    yield rewritten(folder(), lambda g: "[" * 100_000 + "]" * 100_000)
    yield rewritten(folder(), lambda g: '{"format": "rowmill.workflow", "version": 1, "version": 1}')
    yield rewritten(folder(), lambda g: '{"format": NaN}')
    yield rewritten(folder(), lambda g: "\xff\xfe")
    yield rewritten(folder(), lambda g: g.update(columns=[{"name": "a", "dtype": "int64", "evil": 1}]))
    yield rewritten(folder(), lambda g: g.update(removed={"a": 1}))
    yield rewritten(folder(), lambda g: g.update(hash=2))
    for name in (
        "../../outside",
        "/etc/passwd",
        "tables/../../x",
        "tables/1.parquet",
        "C:\\x",
        "tables/000000.parquet/",
        "..",
        ".",
        "a\0b",
    ):
        target = folder()
        manifest = json.loads((target / saving.MANIFEST).read_text())
        manifest["files"][name] = {"bytes": 3, "sha256": "0"}
        (target / saving.MANIFEST).write_text(json.dumps(manifest))
        yield target
    for link in (saving.GRAPH, saving.MANIFEST, "tables"):
        target, outside = folder(), tmp_path / f"outside{made}"
        (target / link).rename(outside)
        (target / link).symlink_to(outside)
        yield target
    target = folder()
    (target / "tables" / "000000.parquet").write_bytes(b"PAR1 not at all PAR1")
    resealed(target, "tables/000000.parquet")
    yield target
    target = folder()
    (target / saving.GRAPH).unlink()
    os.mkfifo(target / saving.GRAPH)
    yield target


FORBIDDEN = {
    "import", "exec", "compile", "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "subprocess.Popen",
    "socket.connect", "socket.bind", "socket.getaddrinfo", "ctypes.dlopen", "marshal.loads", "marshal.load",
}  # fmt: skip
_watching: dict = {"on": False, "events": []}


def _watch(event, arguments):
    if _watching["on"] and (event in FORBIDDEN or event == "open"):
        _watching["events"].append((event, str(arguments[0])[:200]))


sys.addaudithook(_watch)


def watched(folder):
    """Load under the hook: what happened that must not, and the error."""
    _watching["events"].clear()
    _watching["on"] = True
    error = None
    try:
        Workflow.load(folder, functions=FUNCTIONS)
    except RowmillError as found:
        error = found
    finally:
        _watching["on"] = False
    bad = []
    for event, what in _watching["events"]:
        if event == "import" and what in sys.modules:
            continue
        inside = what.startswith(str(folder)) or what in (str(folder), saving.GRAPH, saving.MANIFEST, "tables")
        if event == "open" and (inside or what.startswith(("0", "<")) or what.isdigit()):
            continue
        bad.append((event, what))
    return bad, error


def test_hostile_folders_are_refused_and_run_nothing(saved, tmp_path):
    Workflow.load(saved, functions=FUNCTIONS)  # whatever is imported late is imported now
    count = 0
    for folder in hostile_folders(saved, tmp_path):
        bad, error = watched(folder)
        assert not bad, (folder.name, bad)
        assert error is not None, folder.name
        count += 1
    assert count >= 60


def test_mutated_folders_run_nothing(saved, tmp_path, tried):
    """The graph's JSON with random pieces exchanged: it loads, or there is an error of ours; nothing runs."""
    draw = random.Random(7)
    source = (saved / saving.GRAPH).read_text()
    pieces = ["{", "}", "[", "]", '"', ":", ",", "null", "true", "-1", "1e999", '"$function"', '"$expr"',
    '"$frame"', "\\u0000",
              '"AnonymousFunction"', '"parents"', '"kind"', '"operator"', '"Apply"', '"../x"',
              "99999999999999999999"]  # fmt: skip
    folder = copied(saved, tmp_path)
    Workflow.load(folder, functions=FUNCTIONS)
    loaded = 0
    for _ in range(thorough(1_500, 10_000)):
        text = source
        for _ in range(draw.randint(1, 4)):
            place = draw.randrange(len(text))
            text = text[:place] + draw.choice(pieces) + text[place + draw.choice([0, 1, 1, 1, 5, 30]) :]
        (folder / saving.GRAPH).write_text(text)
        resealed(folder, saving.GRAPH)
        bad, error = watched(folder)
        assert not bad, bad
        loaded += error is None
        tried("mutated workflows")
    assert loaded < 1_000  # most are refused


def test_mutated_expressions_run_nothing(saved, tmp_path, tried):
    """Expressions with their parts exchanged at random: they load, or there is an error of ours, never a panic."""
    draw = random.Random(11)
    exprs = [pl.col("a").is_in([1, 2, 3]), pl.col("s").str.slice(0, 3), pl.when(pl.col("f") > 0).then(1).otherwise(2)]
    folder = tmp_path / "w"
    Workflow(["a", "f", "s"] >> ops.Expr(*(e.alias(f"e{i}") for i, e in enumerate(exprs)))).fit(FRAME).save(folder)
    Workflow.load(folder)
    graph = json.loads((folder / saving.GRAPH).read_text())
    odd = [None, -1, 1 << 70, [], {}, "Literal", [255] * 40, {"Object": "x"}, {"Literal": {"Scalar": {"Object": 1}}},
           {"Literal": {"Range": {}}}, {"Column": 1}, {"Scalar": {"List": [1, 2, 3]}}]  # fmt: skip

    def places(data, found):
        for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
            found.append((data, key))
            if isinstance(value, dict | list):
                places(value, found)
        return found

    for _ in range(thorough(800, 5_000)):
        changed = json.loads(json.dumps(graph))
        settings = next(node for node in changed["nodes"] if node["kind"] == "Apply")["settings"]
        parent, key = draw.choice(places(settings["exprs"], []))
        parent[key] = draw.choice(odd)
        rewritten(folder, lambda _graph, changed=changed: json.dumps(changed))
        bad, _ = watched(folder)
        assert not bad, bad
        tried("mutated expressions")


def test_loading_can_reach_no_code(tmp_path):
    """The modules that load a workflow use no pickle, eval, exec or import by name."""
    import ast
    import inspect

    from rowmill.graph.saved import codec

    for module in (saving, loading, codec):
        tree = ast.parse(inspect.getsource(module))
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)} | {
            n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
        }
        assert not names & {
            "eval",
            "exec",
            "compile",
            "pickle",
            "cloudpickle",
            "marshal",
            "import_module",
            "__import__",
            "loads_code",
        }
