"""Runs `tests/native` with a compiled module that AddressSanitizer and UBSan watch. Called by `make sanitize`.

The folder that is given holds that module. It replaces the installed one in a process of its own, in which the
sanitizer's library is loaded first.
"""

import os
import subprocess
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path


def main(folder: Path) -> int:
    if "LD_PRELOAD" not in os.environ:
        found = [
            subprocess.check_output(["c++", f"-print-file-name={name}"], text=True).strip()
            for name in ("libasan.so", "libstdc++.so")
        ]
        options = {
            "LD_PRELOAD": " ".join(found),
            "ASAN_OPTIONS": "detect_leaks=0",
        }  # an interpreter frees little at its end
        return subprocess.call(
            [sys.executable, "-m", "tests.native.sanitized", str(folder)], env={**os.environ, **options}
        )
    name = "rowmill._native.core"
    spec = spec_from_file_location(name, next(folder.glob("core.*.so")))
    sys.modules[name] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
    import pytest

    return pytest.main(["tests/native", "-p", "no:cacheprovider"])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
