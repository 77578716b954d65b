"""The part of the benchmarks that is arithmetic: medians, verdicts, and what goes into the README."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")


@pytest.fixture(autouse=True)
def benchmarks(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if "benchmarks" in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


def write(folder, name, readings):
    """Lines as in a journal; `readings` are (question, contestant, varied, rows, seconds, CPU-seconds)."""
    machine = {
        "date": "2026-01-01T00:00:00Z",
        "cores": 2,
        "cpu": "x",
        "memory_gb": 8,
        "python": "3",
        "versions": {},
    }
    with (folder / name).open("w") as out:
        for number, (question, contestant, varied, rows, seconds, cpu) in enumerate(readings):
            record = {
                "question": question,
                "contestant": contestant,
                "varied": varied,
                "round": number,
                "rows": rows,
            }
            record |= {"seconds": seconds, "cpu_seconds": cpu, "machine": machine}
            record |= {"table_rows": 4_000_000, "batch_size": 65_536}
            out.write(json.dumps(record) + "\n")


RACE = [
    ("race", "ceiling", 0, 10, 1.0, 1.0),
    ("race", "rowmill", 0, 10, 2.0, 2.0),
    ("race", "rowmill", 0, 10, 9.0, 9.0),
    ("race", "rowmill", 0, 10, 1.0, 1.0),
    ("race", "perm", 0, 10, 3.0, 4.0),
    ("race", "stock-0", 0, 1, 20.0, 20.0),
]


def test_figures_are_medians_of_rates(tmp_path):
    from journal import newest
    from summary import figures

    write(tmp_path, "a.jsonl", RACE)
    figure = figures(newest("race", tmp_path))["rowmill"]
    assert (figure.rows_per_second, figure.cpu_per_million, figure.rounds) == (5.0, 2e5, 3)


def test_the_newest_run_that_asked_is_taken(tmp_path):
    from journal import newest

    write(tmp_path, "2026-01-01.jsonl", [("race", "rowmill", 0, 1, 1, 1), ("rows", "rowmill", 5, 1, 1, 1)])
    write(tmp_path, "2026-01-02.jsonl", [("race", "rowmill", 0, 2, 1, 1)])
    assert [record["rows"] for record in newest("race", tmp_path)] == [2]
    assert [record["varied"] for record in newest("rows", tmp_path)] == [5]
    assert newest("files", tmp_path) == []


def test_verdicts(tmp_path):
    from targets import targets

    flat = [("columns", "rowmill", 10, 40, 1.0, 1.0), ("columns", "rowmill", 100, 4, 1.3, 1.0)]
    write(tmp_path, "a.jsonl", RACE + flat)
    found = {target.what: target for target in targets(tmp_path)}
    assert found["rows/s of the ceiling"].verdict == "missed"  # 0.5 of it: 0.7 wanted
    assert found["CPU-seconds of the ceiling"].verdict == "missed"  # 2.0 of it: 1.35 wanted
    assert found["rows/s of tensor[perm] from RAM"].verdict == "missed"  # 1.5 of it
    assert found["rows/s of DataLoader, 0 workers"].reached == 100
    assert found["rows/s of DataLoader, 2 workers"].verdict == "not measured"
    wall = found["cost per value, 10 to 400 columns: wall, largest/smallest"]
    assert wall.reached == pytest.approx(1.3)
    assert wall.verdict == "missed"
    assert found["cost per value, 10 to 400 columns: CPU, largest/smallest"].verdict == "met"


def test_an_aim_can_be_met():
    from targets import Target

    assert Target("", 0.71, 0.4, 0.7).verdict == "aim met"
    assert Target("", 1.3, 2.4, 1.4, at_most=True).verdict == "aim met"
    assert Target("", 2.5, 2.4, 1.4, at_most=True).verdict == "missed"


def test_results_go_between_the_markers_and_nowhere_else(tmp_path):
    from publish import BEGIN, END, publish

    (tmp_path / "docs").mkdir()
    readme, page, picture = tmp_path / "README.md", tmp_path / "docs" / "benchmarks.md", tmp_path / "docs" / "bench.png"
    paths = {"readme": readme, "page": page, "picture": picture}
    write(tmp_path, "a.jsonl", RACE)
    assert not publish(tmp_path, **paths)
    readme.write_text("no place for it\n")
    page.write_text(f"# before\n{BEGIN}\nold\n{END}\nafter\n")
    assert not publish(tmp_path, **paths)
    assert readme.read_text() == "no place for it\n" and "old" in page.read_text()
    assert not picture.exists()
    readme.write_text(f"# before\n{BEGIN}\nold\n{END}\nafter\n")
    assert publish(tmp_path, **paths)
    once = [path.read_text() for path in (readme, page)]
    for text, link in zip(once, ("docs/bench.png", "bench.png"), strict=True):
        assert text.startswith(f"# before\n{BEGIN}\n![") and f"]({link})" in text
        assert text.endswith(f"{END}\nafter\n")
        assert "old" not in text
    assert "| **Rowmill, shuffled** | 0.00 | 200000.00 |\n" in once[0]
    assert "| **Rowmill, shuffled** | 0.00 | 200000.00 | 100 |" in once[1]
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert publish(tmp_path, **paths)
    assert [path.read_text() for path in (readme, page)] == once
