"""The programs of the pages in docs/ run as they are printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rowmill.ops import OPERATORS, StatOperator

DOCS = Path(__file__).parent.parent / "docs"
PAGE = DOCS / "keras-and-jax.md"


@pytest.mark.parametrize("backend", ["torch", "jax"])
def test_the_page_on_keras_runs(backend, tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.S)
    assert programs
    found = subprocess.run(
        [sys.executable, "-c", "\n".join(programs)],
        cwd=tmp_path,
        env={**os.environ, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert found.returncode == 0, found.stderr


def test_the_workflow_page(tmp_path):
    """The cluster's program by itself, in a file, as a cluster's processes import the program that started them."""
    programs = re.findall(r"```python\n(.*?)```", (DOCS / "workflow.md").read_text(), re.S)
    assert len(programs) >= 5
    *others, cluster = programs
    assert "LocalCluster" in cluster
    for name, program in {"features.py": "\n".join(others), "cluster.py": cluster}.items():
        (tmp_path / name).write_text(program)
        found = subprocess.run([sys.executable, name], cwd=tmp_path, capture_output=True, text=True, timeout=200)
        assert found.returncode == 0, found.stderr[-4000:]
    assert (tmp_path / "prepared-there").is_dir()


def test_the_workflow_page_lists_every_operator():
    rows = re.findall(r"^\| `(\w+)` \|.*\| (yes)? ?\|$", (DOCS / "workflow.md").read_text(), re.M)
    learn = {name for name, operator in OPERATORS.items() if issubclass(operator, StatOperator)}
    assert [name for name, _ in rows] == sorted(OPERATORS) and {name for name, yes in rows if yes} == learn


PAGES = ["index", "choosing-rows", "performance", "ranks", "accelerate", "migrating"]
RUN_PAGES = """
import os, sys, traceback
for name in sys.argv[1:]:
    os.chdir(name)
    try:
        exec(compile(open("program.py").read(), name, "exec"), {"__name__": "__main__"})
        open("done", "w").close()
    except Exception:
        traceback.print_exc()
    os.chdir("..")
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The programs of the pages, run one after the other in one process, each in a folder of its own."""
    folder = tmp_path_factory.mktemp("pages")
    for name in PAGES:
        programs = re.findall(r"```python\n(.*?)```", (DOCS / f"{name}.md").read_text(), re.S)
        assert programs
        (folder / name).mkdir()
        (folder / name / "program.py").write_text("\n".join(programs))
    found = subprocess.run(
        [sys.executable, "-c", RUN_PAGES, *PAGES],
        cwd=folder,
        env={**os.environ, "KERAS_BACKEND": "torch"},
        capture_output=True,
        text=True,
        timeout=250,
    )
    return folder, found


@pytest.mark.parametrize("name", PAGES)
def test_a_page_runs_from_top_to_bottom(name, pages):
    folder, found = pages
    assert found.returncode == 0 and (folder / name / "done").exists(), found.stderr[-8000:]


def test_no_program_is_left_out():
    """Every page with a program is run by a test here, or by one that is named."""
    elsewhere = {"api", "keras-and-jax", "workflow", "store", "training", "report"}
    pages = {path.stem for path in DOCS.glob("*.md") if "```python" in path.read_text()}
    assert pages == {*PAGES} | elsewhere


def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")]
    found = subprocess.run(command, cwd=DOCS.parent, capture_output=True, text=True, timeout=200)
    assert found.returncode == 0, found.stderr[-4000:]
    assert "TorchAsyncItr" in (tmp_path / "site" / "api" / "index.html").read_text()


def test_the_page_on_training_runs(tmp_path):
    programs = re.findall(r"```python\n(.*?)```", PAGE.with_name("training.md").read_text(), re.S)
    assert len(programs) == 3
    check = "assert trainer.global_step == 16 and probabilities.shape == (2000, 2)\nlearn.summary()"
    found = subprocess.run(
        [sys.executable, "-c", "\n".join([*programs, check])], cwd=tmp_path, capture_output=True, text=True, timeout=200
    )
    assert found.returncode == 0, found.stderr
