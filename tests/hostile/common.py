"""What the hostile tests of stores share: a visitor process, a table with its stores, and a look at a whole folder."""

import hashlib
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]


@contextmanager
def visitors(*arguments):
    """Gives the function that runs one order in a forked child of a process that has everything loaded."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.hostile.visitor", *arguments],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
    )

    def run(**order):
        process.stdin.write(json.dumps(order) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    yield run
    process.stdin.close()
    process.wait(timeout=60)


def snapshot(folder):
    """All that can be said of a folder: names, kinds, owners, modes, times and contents."""
    found = {}
    for path in [folder, *sorted(folder.rglob("*"))]:
        info = path.lstat()
        content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
        found[str(path)] = (info.st_mode, info.st_uid, info.st_size, info.st_mtime_ns, content)
    return found
