"""The command `rowmill`, as a person and as a program call it."""

import itertools
import json
import os
import pty
import shlex
import signal
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path

import polars as pl
import pytest

import rowmill
from rowmill.cli import main
from rowmill.loader.torch import Loader
from rowmill.ops import Categorify
from tests.conftest import make_table, write_files


@pytest.fixture
def run(capsys):
    """Runs a command in this process: exit code, stdout, stderr."""

    def call(*words):
        code = main([str(word) for word in words])
        return code, *capsys.readouterr()

    return call


@pytest.fixture
def answer(run):
    """Runs a command with --json that must succeed: what it answers. Nothing else may be on stdout or stderr."""

    def call(*words):
        code, out, err = run(*words, "--json")
        assert (code, err) == (0, "")
        return json.loads(out)

    return call


def test_inspect(folder, run, answer):
    found = answer("inspect", folder)
    assert (found["rows"], found["files"], found["exact"]) == (1003, 3, True)
    assert {c["name"]: c["distinct"] for c in found["columns"]}["cat_a"] == 77
    code, out, err = run("inspect", folder, "--sample", 300)
    assert code == 0 and err == "" and "1,003 rows, 6 columns, 3 files" in out and "≥ " in out and "cat_b" in out


def test_inspect_suggests_a_command_that_works(tmp_path, run, answer):
    write_files(tmp_path / "small", pl.concat([make_table(40_000)] * 2), files=60, row_group=500)
    advice = answer("inspect", tmp_path / "small")["advice"]
    assert "too small" in advice[0]["found"]
    words = advice[0]["do"].partition("rowmill ")[2].replace("OUT", str(tmp_path / "out")).split()
    assert run(*words)[0] == 0
    assert not any("too small" in a["found"] for a in answer("inspect", tmp_path / "out")["advice"])
    assert rowmill.Dataset(tmp_path / "out").to_polars().equals(rowmill.Dataset(tmp_path / "small").to_polars())


def test_plan_says_what_the_loader_says(folder, run, answer):
    found = answer("plan", folder, "--batch-size", 100, "--columns", "id,label", "--mixing", "label", "--ranks", 2)
    plan = Loader(
        rowmill.Dataset(folder), 100, columns=["id", "label"], shuffle=True, global_size=2, global_rank=0
    ).plan("label")
    assert (found["steps"], found["rows"], found["batch_mixing"]) == (plan.steps, plan.rows, plan.batch_mixing)
    assert found["mixing"]["measured"] == plan.mixing.measured
    assert answer("plan", folder, "--no-shuffle")["order_in_batch"] < 0.01
    assert "shuffled together" in run("plan", folder)[1]


def test_bench_measures_three_and_says_what_limits(folder, run, answer):
    found = answer("bench", folder, "--seconds", 0.05, "--batch-size", 100)
    assert list(found["paces"]) == ["decoding alone", "Rowmill, shuffled", "stock DataLoader"]
    assert all(pace["rows_per_second"] > 0 for pace in found["paces"].values()) and "limit" in found["limit"]
    assert "of decoding" in run("bench", folder, "--seconds", 0.05)[1]


def test_report_writes_a_page_and_pictures(folder, tmp_path, answer):
    page = tmp_path / "r.html"
    found = answer("report", folder, "-o", page, "--batch-size", 100, "--seconds", 1.2, "--png", tmp_path / "png")
    assert "This machine loads" in page.read_text() and "too short" not in page.read_text()
    run, line = found["run"], found["run"]["timeline"]
    assert run["seconds"] > 1 and run["rows"] > 2 * 1003 and run["rows"] / run["batches"] <= 100
    assert len(line) <= 256 and line[-1]["rows"] > 0.9 * run["rows"] and line[-1]["seconds"] <= run["seconds"]
    assert all(a["seconds"] <= b["seconds"] and a["rows"] < b["rows"] for a, b in itertools.pairwise(line))
    assert found["pictures"] and all(os.path.exists(p) for p in found["pictures"])
    found = answer("report", folder, "-o", page, "--seconds", 0)
    assert found["run"] is None and "No run yet" in page.read_text()


def test_a_report_of_a_short_run_blames_nobody(folder, tmp_path, run):
    code, out, _ = run("report", folder, "-o", tmp_path / "r.html", "--seconds", 0.1)
    assert code == 0 and "too short to judge" in out and "limits it" not in out


def test_raw_tables_load_whatever_their_columns_are(tmp_path, answer):
    frame = pl.DataFrame({"s": ["a", None], "l": [[1], None], "n": [1, None], "t": [[["x"]], None], "d": ["1", "2"]})
    frame = frame.with_columns(pl.col("d").str.to_decimal(scale=2), day=pl.from_epoch(pl.lit(0)))
    write_files(tmp_path / "raw", frame, files=1)
    assert answer("plan", tmp_path / "raw")["rows"] == 2
    found = answer("report", tmp_path / "raw", "-o", tmp_path / "r.html", "--seconds", 0.1)["run"]["rows"]
    assert found >= 2 and found % 2 == 0


def test_from_csv_to_a_fitted_table(tmp_path, run, answer):
    lines = "".join(f"{i % 3:x}f,{i},{i % 2}\n" for i in range(100))
    (tmp_path / "t.csv").write_text(lines)
    made = answer("convert", tmp_path / "t.csv", tmp_path / "t", "--names", "h,x,y", "--hex", "h", "--files", 2,
                  "--row-group-size", 10)  # fmt: skip
    data = rowmill.Dataset(tmp_path / "t")
    assert (made["rows"], made["files"], max(data.partition_lens)) == (100, 2, 10)
    assert data.head(2)["h"].to_list() == [0x0F, 0x1F]
    fitted = answer("fit", tmp_path / "t", "--cats", "h", "--conts", "x", "--labels", "y", "-o", tmp_path / "w")
    assert fitted["columns"] == ["h", "x", "y"]
    code, out, err = run(
        "transform", tmp_path / "t", "--workflow", tmp_path / "w", "-o", tmp_path / "out", "--files", 1
    )
    assert code == 0 and err == "" and "100 rows in 1 file:" in out
    table = rowmill.Dataset(tmp_path / "out")
    assert table.schema.select_by_tag("target").column_names == ["y"]
    assert table.to_polars()["x"].mean() == pytest.approx(0, abs=1e-6) and table.to_polars()["h"].n_unique() == 3


def test_an_unfitted_workflow_is_fitted(folder, tmp_path, answer, run):
    rowmill.Workflow(["cat_a"] >> Categorify()).save(tmp_path / "unfitted")
    code, _, err = run("transform", folder, "--workflow", tmp_path / "unfitted", "-o", tmp_path / "no")
    assert code == 1 and "has not been fitted" in err
    answer("fit", folder, "--workflow", tmp_path / "unfitted", "-o", tmp_path / "fitted")
    assert rowmill.Workflow.load(tmp_path / "fitted").fitted


def test_cache_list_and_clear(folder, tmp_path, run, answer):
    cache = tmp_path / "cache"
    cache.mkdir()
    assert answer("cache", "list", cache) == [] and "No stores" in run("cache", "list", cache)[1]
    Loader(rowmill.Dataset(folder), 100, cache=cache).build_cache()
    (entry,) = answer("cache", "list", cache)
    assert entry["rows"] == 1003 and entry["complete"] and entry["nbytes"] > 0
    assert "1,003" in run("cache", "list", cache)[1]
    assert answer("cache", "clear", cache) == {"removed": 1, "left": 0}
    Loader(rowmill.Dataset(folder), 100, cache=cache).build_cache()
    assert "Removed 1 store; 0 are left" in run("cache", "clear", cache)[1]


def test_the_default_cache_need_not_exist(tmp_path, answer, monkeypatch):
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path / "none"))
    assert answer("cache", "list") == [] and answer("cache", "clear") == {"removed": 0, "left": 0}


@pytest.mark.parametrize("command", ["list", "clear"])
def test_a_cache_folder_that_is_not_there(command, tmp_path, run):
    code, out, err = run("cache", command, tmp_path / "none")
    assert (code, out) == (1, "") and f"{tmp_path / 'none'} does not exist" in err and not (tmp_path / "none").exists()


def test_one_of_a_kind_is_singular(tmp_path, run):
    write_files(tmp_path / "one", pl.DataFrame({"a": [7]}), files=1)
    out = run("inspect", tmp_path / "one")[1]
    assert "1 row, 1 column, 1 file, " in out and "1 row group of 1 to 1 rows" in out
    assert (
        "Fitted on 1 row; the workflow makes 1 column."
        in run("fit", tmp_path / "one", "--cats", "a", "-o", tmp_path / "w")[1]
    )
    assert run("report", tmp_path / "one", "-o", tmp_path / "r.html", "--seconds", 0)[0] == 0
    page = (tmp_path / "r.html").read_text()
    assert "<b>1</b><span>row</span>" in page and "<b>1</b><span>row group</span>" in page
    assert "<b>1</b><span>column</span>" in page and "<span>file, " in page and "1 row groups" not in page


def test_inspect_suggests_a_fit_that_works(tmp_path, run, answer):
    frame = {"the user": ["ann", "bob"], "shop": ["x", "y"], "it's": ["p", "q"], "price": [1.5, 2.5]}
    write_files(tmp_path / "raw data", pl.DataFrame(frame), files=1)
    (advice,) = [a for a in answer("inspect", tmp_path / "raw data")["advice"] if "text" in a["found"]]
    command = advice["do"].partition("rowmill ")[2].partition(";")[0]
    assert command in run("inspect", tmp_path / "raw data")[1]  # on one line, to be copied
    assert run(*shlex.split(command.replace("OUT", str(tmp_path / "w"))))[0] == 0
    assert rowmill.Workflow.load(tmp_path / "w").output_schema.column_names == ["the user", "shop", "it's"]


def test_nulls_written_as_text_are_pointed_out(tmp_path, run, answer):
    (tmp_path / "in").mkdir()
    path = tmp_path / "in" / "delays.csv"
    path.write_text("user,delay,label\nann,1.5,0\nbob,NA,1\ncid,-,?\n")
    for given in (path, tmp_path / "in"):
        advice = {a["found"]: a["do"] for a in answer("inspect", given)["advice"]}
        found = "text that looks like null ('-', '?', 'NA') beside numbers, which are text because of it, in "
        do = advice[found + "2 columns (delay, label)"]
        command = f"rowmill convert {given} OUT --null-values='-,?,NA'"
        assert do == f"if it means null in all columns, read it with null_values=['-', '?', 'NA']: {command}"
        assert "--cats user -o" in advice["text, which no tensor holds, in 1 column (user)"]
        assert command in run("inspect", given)[1]
        code, out, err = run("convert", given, tmp_path / "text")
        assert (code, err) == (0, "") and found in out and command in out
        told = answer("convert", given, tmp_path / "text")["advice"]
        assert told == [{"found": found + "2 columns (delay, label)", "do": do}]
        words = shlex.split(command.removeprefix("rowmill ").replace("OUT", str(tmp_path / "out")))
        code, out, err = run(*words)
        assert (code, err) == (0, "") and "looks like null" not in out
        rows = [("ann", 1.5, 0), ("bob", None, 1), ("cid", None, None)]
        assert rowmill.Dataset(tmp_path / "out").to_polars().rows() == rows
    found = answer("inspect", path, "--null-values", "NA,-", "--null-values", "?")
    assert {c["name"]: (c["dtype"], round(c["nulls"], 2)) for c in found["columns"]} == {
        "user": ("string", 0.0),
        "delay": ("float64", 0.67),
        "label": ("int64", 0.33),
    }


MISTAKES = {
    "null values of a Parquet file": ("convert", "{table}", "out", "--null-values", "NA"),
    "no such path": ("inspect", "nowhere"),
    "no such column": ("plan", "{table}", "--columns", "idd"),
    "no such workflow": ("transform", "{table}", "--workflow", "nowhere", "-o", "out"),
    "no column to fit": ("fit", "{table}", "--cats", "C99", "-o", "out"),
    "not a Parquet file": ("inspect", "{broken}"),
    "an engine that is none": ("inspect", "{table}", "--engine", "json"),
    "a file in the way": ("convert", "{table}", "{broken}"),
    "memory that is none": ("plan", "{table}", "--memory", "lots"),
    "a page in a folder that is not there": ("report", "{table}", "-o", "none/r.html", "--seconds", "0"),
    "a page in no folder": ("report", "{table}", "-o", "{broken}/r.html", "--seconds", "0"),
}


@pytest.mark.parametrize("words", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_one_sentence_and_code_1(words, folder, tmp_path, run, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 no footer")
    places = {"table": folder, "broken": tmp_path / "broken.parquet"}
    code, out, err = run(*(word.format(**places) for word in words))
    assert (code, out) == (1, "") and err.startswith("rowmill: ") and err.count("\n") == 1 and "Traceback" not in err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["nonsense"], ["inspect"], ["inspect", ".", "--bogus"], ["demo", "other"], ["fit", ".", "-o", "o"],
        ["fit", ".", "-o", "o", "--workflow", "w", "--cats", "a"], ["plan", ".", "--ranks", "0"],
    ],
)  # fmt: skip
def test_wrong_usage_is_code_2(words, folder, run, monkeypatch):
    monkeypatch.chdir(folder)
    code, out, err = run(*words)
    assert code == 2 and "Usage: rowmill" in err and out == ""


def python(*words, **options):
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, timeout=120, **options)


def test_as_a_module_with_its_version_and_exit_code():
    done = python("-m", "rowmill", "--version")
    assert (done.returncode, done.stdout.strip()) == (0, f"rowmill {rowmill.__version__}")
    assert python("-m", "rowmill", "inspect", "nowhere").returncode == 1


def test_a_header_that_names_a_column_twice_can_be_replaced(tmp_path, run, answer):
    (tmp_path / "t.csv").write_text("id,id\n1,2\n")
    code, _, said = run("convert", tmp_path / "t.csv", tmp_path / "t")
    assert code == 1 and "--names and --header" in said
    answer("convert", tmp_path / "t.csv", tmp_path / "t", "--names", "a,b", "--header")
    assert rowmill.Dataset(tmp_path / "t").to_polars().rows(named=True) == [{"a": 1, "b": 2}]
    assert answer("inspect", tmp_path / "t.csv", "--sep", ";")["rows"] == 1


def test_without_typer_it_names_the_extra():
    code = "import sys; sys.modules['typer'] = None; from rowmill.cli import main; sys.exit(main(['inspect', '.']))"
    done = python("-c", code)
    assert done.returncode == 1 and "pip install 'rowmill[cli]'" in done.stderr and done.stderr.count("\n") == 1


def test_importing_rowmill_loads_neither_the_command_nor_the_report():
    found = python("-c", "import rowmill, sys; print(*sys.modules)").stdout.split()
    assert "rowmill" in found and not {"typer", "rich", "rowmill.cli", "rowmill.report"} & set(found)


def test_the_command_is_installed_with_its_extra():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["rowmill"] == "rowmill.cli:main"
    assert any(need.startswith("typer") for need in project["optional-dependencies"]["cli"])


TERMINAL = {**os.environ, "TERM": "xterm"}  # one that can show a bar, whatever runs the tests


def test_ctrl_c_ends_it_with_130_and_no_traceback(folder):
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "rowmill", "bench", str(folder), "--seconds", "60"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs, env=TERMINAL) as process:
        shown = b""
        while b"decoding alone" not in shown:
            shown += os.read(ours, 10_000)
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    os.set_blocking(ours, False)
    with suppress(BlockingIOError):
        shown += os.read(ours, 100_000)
    os.close(ours), os.close(theirs)
    assert b"Traceback" not in shown


def test_without_a_framework_it_names_one(folder):
    code = (
        "import sys, importlib.util as u; found = u.find_spec\n"
        "u.find_spec = lambda n, *a: None if n in ('torch', 'jax', 'tensorflow') else found(n, *a)\n"
        f"from rowmill.cli import main; sys.exit(main(['plan', {str(folder)!r}]))"
    )
    done = python("-c", code)
    assert done.returncode == 1 and "pip install 'rowmill[torch]'" in done.stderr


def test_a_shell_completes_it():
    typed = {"_ROWMILL_COMPLETE": "complete_bash", "COMP_WORDS": "rowmill in", "COMP_CWORD": "1"}
    done = python("-c", "from rowmill.cli import main; main()", env={**os.environ, **typed})
    assert done.stdout.split() == ["inspect"]


def test_progress_is_for_terminals_only(folder):
    command = [sys.executable, "-m", "rowmill", "inspect", str(folder)]
    assert python(*command[1:]).stderr == ""
    ours, theirs = pty.openpty()
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, timeout=120, env=TERMINAL)
        os.set_blocking(ours, False)  # or a bar that is missing would be awaited for ever
        shown = os.read(ours, 100_000).decode()
    finally:
        os.close(ours), os.close(theirs)
    assert done.returncode == 0 and "Reading a sample" in shown


def test_demos_are_started_with_their_settings(tmp_path, run):
    code, out, _ = run("demo", "-o", tmp_path, "--rows", 10)
    assert code == 2 and "too few to train on" in out
    code, out, _ = run("demo", "memmap", "-o", tmp_path, "--scale", 0.01)
    assert code == 0 and (tmp_path / "memmap.png").exists()
