"""Loads and runs crafted workflows, one after the other, under an audit hook and limits; says what each ended in.

Reads folders from its standard input. Writes a line of JSON before and after each.
"""

import contextlib
import json
import os
import resource
import sys
import time
import warnings

sys.path.insert(0, os.getcwd())
warnings.simplefilter("ignore")

import polars as pl  # noqa: E402

from rowmill import Workflow, ops  # noqa: E402
from rowmill.errors import RowmillError  # noqa: E402
from tests.hostile.expressions import FRAME  # noqa: E402
from tests.ops.samples import FUNCTIONS, SAMPLES, table  # noqa: E402

TABLE = table(30)
SMALL = TABLE.hstack([c for c in FRAME[[0, 1, 2, 3] * 7 + [0, 1]].get_columns() if c.name not in TABLE.columns])
FORBIDDEN = {
    "exec", "compile", "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
    "socket.connect", "socket.bind", "socket.getaddrinfo", "ctypes.dlopen", "marshal.loads", "marshal.load",
    "os.remove", "os.rename", "os.mkdir", "shutil.rmtree", "os.symlink", "urllib.Request", "glob.glob", "os.listdir",
    "os.scandir", "tempfile.mkdtemp",
}  # fmt: skip
PARTS = ("workflow.json", "_metadata.json", "tables")
watching = {"folder": None, "events": []}


def watch(event, arguments):
    folder = watching["folder"]
    if folder is None:
        return
    if event in FORBIDDEN:
        watching["events"].append((event, str(arguments[:1])[:120]))
    elif event == "import" and arguments[0] not in sys.modules:
        watching["events"].append((event, str(arguments[0])[:120]))
    elif event == "open":
        path = arguments[0]
        inside = isinstance(path, int) or str(path).startswith(folder) or str(path) in PARTS
        if not inside and not (str(path).endswith(".parquet") and "/" not in str(path)):
            watching["events"].append((event, str(path)[:120]))


def warm_up(folder):
    """Import and compile everything that a workflow may need, before anybody watches."""
    for number, node in enumerate(SAMPLES.values()):
        workflow = Workflow(node).fit(TABLE)
        workflow.save(f"{folder}/{number}")
        Workflow.load(f"{folder}/{number}", functions=FUNCTIONS).transform(SMALL)
    wide = pl.DataFrame({"w": [1 << 40, None, 3], "t": [1.0, 0.0, 1.0]})
    Workflow((["w"] >> ops.Categorify()) + (["w"] >> ops.TargetEncoding("t"))).fit(wide).transform(wide)
    with contextlib.suppress(RowmillError):
        Workflow.load(f"{folder}/nothing")


def peak():
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM"))


def forget_peak():
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def run(folder):
    forget_peak()
    before, start = peak(), time.perf_counter()
    watching.update(folder=folder, events=[])
    ended, kind = "worked", ""
    try:
        workflow = Workflow.load(folder, functions=FUNCTIONS)
        ended = "loaded"
        workflow.transform(SMALL)
        ended = "worked"
    except RowmillError as error:
        kind = type(error).__name__
        ended = "refused" if ended == "worked" else "failed"
    except BaseException as error:  # noqa: BLE001 - that is the question
        ended, kind = "untyped", f"{type(error).__name__}: {str(error)[:200]}"
    events = list(watching["events"])
    watching["folder"] = None
    return {
        "ended": ended, "kind": kind, "events": events, "mb": peak() - before, "s": time.perf_counter() - start,
    }  # fmt: skip


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    warm_up(sys.argv[1])
    sys.addaudithook(watch)
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        print(json.dumps({"folder": line.strip()}), flush=True)
        print(json.dumps(run(line.strip())), flush=True)
    del pl
