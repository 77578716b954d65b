"""The wheel: built by pip from a clean copy, complete, and usable from where nothing can be written."""

import os
import shutil
import subprocess
import sys
import textwrap
import zipfile
from pathlib import Path

import pytest

from tests.counts import THOROUGH

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    copied = folder / "project"
    ignored = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "src", copied / "src", ignore=ignored)
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copied)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    if not THOROUGH:  # compiled in a third of the time
        command += ["--config-settings", "cmake.define.CMAKE_CXX_FLAGS_RELEASE=-O0"]
    done = subprocess.run([*command, str(copied)], capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr[-3000:]
    (found,) = folder.glob("*.whl")
    return found


def test_the_wheel_holds_every_module_and_no_source_of_the_compiled_one(wheel):
    names = set(zipfile.ZipFile(wheel).namelist())
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules <= names
    assert {"rowmill/py.typed", "rowmill/report/page.css", "rowmill/_native/core.pyi"} <= names
    assert [name for name in names if name.startswith("rowmill/_native/core.") and name.endswith((".so", ".pyd"))]
    assert not [name for name in names if name.endswith((".cpp", ".hpp", ".pyc"))]


def test_it_runs_from_a_folder_that_is_only_read_and_without_a_home(wheel, tmp_path):
    """No compiler, no cache of code, no file written: an audit hook refuses to open anything for writing."""
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    program = textwrap.dedent("""
        import sys
        sys.meta_path = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__.lower()]
        import polars, pyarrow, torch

        def hook(event, arguments):
            if event == "open" and isinstance(arguments[0], (str, bytes)):
                mode, flags = arguments[1] or "", arguments[2]
                if any(letter in str(mode) for letter in "wax+") or flags & 3:
                    raise PermissionError(f"{arguments[0]} opened for writing")
            if event == "subprocess.Popen":
                raise PermissionError(f"started {arguments[0]}")

        sys.addaudithook(hook)
        import rowmill
        from rowmill.loader.torch import Loader
        from rowmill import Workflow, ops
        data = rowmill.Dataset({"a": list(range(100)), "b": [i % 7 for i in range(100)]})
        rows = sorted(row for batch, _ in Loader(data, 10, shuffle=True) for row in batch["a"].tolist())
        assert rows == list(range(100))
        made = Workflow(["b"] >> ops.Categorify()).fit(data).transform(data).to_pandas()
        assert sorted(made["b"].unique()) == list(range(3, 10))
        print(rowmill.__file__)
    """)
    environment = {name: value for name, value in os.environ.items() if name not in ("HOME", "PYTHONPATH")}
    environment |= {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", "HOME": "/nonexistent"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == str(site / "rowmill" / "__init__.py")
