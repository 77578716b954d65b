"""The README's install lines: with a CPU build of PyTorch in place, no extra replaces it."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.counts import THOROUGH

ROOT = Path(__file__).parent.parent
EXTRAS = sorted(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"])
TOGETHER = "torch,cli,keras,pandas,lightning,fastai,accelerate,dask,tensordict"
APART = sorted(set(EXTRAS) - set(TOGETHER.split(",")))


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """What pip reads of the project: resolving needs none of its modules."""
    folder = tmp_path_factory.mktemp("project")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    (folder / "src" / "rowmill").mkdir(parents=True)
    (folder / "src" / "rowmill" / "__init__.py").touch()
    return folder


def resolved(project, extras, *options):
    """What pip would install for these extras, by name."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--no-build-isolation", "--report", "-"]
    done = subprocess.run(
        [*command, *options, f"{project}[{extras}]"], capture_output=True, text=True, timeout=250, cwd=project
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        item["metadata"]["name"].lower(): item["metadata"]["version"] for item in json.loads(done.stdout)["install"]
    }


@pytest.mark.parametrize("extras", [*(EXTRAS if THOROUGH else APART), TOGETHER])
def test_no_extra_replaces_the_pytorch_that_is_installed(project, extras):
    found = resolved(project, extras)
    assert "rowmill" in found
    assert not [name for name in found if name in ("torch", "torchvision") or name.startswith("nvidia-")]


def test_the_constraints_keep_the_pytorch_that_is_tested(project):
    constraints = ROOT / "constraints.txt"
    pinned = re.search(r"^torch==(\S+)$", constraints.read_text(), re.M)[1]
    assert f"\ntorch=={pinned}\n" in (ROOT / "requirements-demo.txt").read_text()
    assert version("torch").split("+")[0] == pinned
    assert "torch" not in resolved(project, "torch,lightning", "--constraint", str(constraints))


def test_the_readme_lists_every_extra():
    listed = re.findall(r'^\| `pip install "\.\[([\w-]+)\]"`', (ROOT / "README.md").read_text(), re.M)
    assert sorted([*listed, "demo"]) == EXTRAS  # the demo sets itself up
