"""A process that does a piece of work, is interrupted by signals at any moment, and says what is left of it.

Orders come as JSON lines: a work and the seed of its try. The process answers "go", is sent signals by whoever gave the
order, reads "sent", and answers with a JSON line: how the work ended, what it left behind, and whether it succeeds when
it is done again.
"""

import gc
import hashlib
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path

import numpy as np
import polars as pl

import rowmill
from rowmill import Workflow, ops
from rowmill.io import Shuffle
from rowmill.loader.tensordict import dataset_to_tensordict
from rowmill.loader.torch import Loader
from rowmill.sinks import scatter
from tests.conftest import make_table, write_files

ROWS = 6_000
GRACE = 3.0  # seconds for threads to end
PACKAGE = str(Path(rowmill.__file__).parent)


class Squares:
    def __len__(self):
        return 2_000

    def __getitem__(self, index):
        return np.array([index, index * index]), index % 2


class Works:
    """Pieces of work, each a method that returns what it has found out about the rows."""

    def __init__(self, folder):
        self.tables, self.out = folder / "tables", folder / "out"
        self.temporary = folder / "temporary"
        self.temporary.mkdir()
        tempfile.tempdir = str(self.temporary)
        self.table = make_table(ROWS)
        write_files(self.tables / "parquet", self.table, files=6, row_group=250)
        (self.tables / "ipc").mkdir()
        (self.tables / "csv").mkdir()
        for number, part in enumerate(self.table.iter_slices(ROWS // 20)):
            part.write_ipc(self.tables / "ipc" / f"{number:02}.arrow")
            part.write_csv(self.tables / "csv" / f"{number:02}.csv")
        write_files(self.tables / "many", self.table, files=60, row_group=100)
        self.workflow = self.new_workflow().fit(self.data())
        self.loader = Loader(self.data(), 100, shuffle=True, memory="300KB", threads=3)
        stored = Loader(self.data(), 100, cache=folder / "stored", memory="1MB")
        stored.build_cache()
        self.stored = folder / "stored"
        scatter._BUCKET_BYTES = 40_000

    def data(self, kind="parquet"):
        return rowmill.Dataset(self.tables / kind)

    def new_workflow(self):
        cats = ["cat_a", "cat_b"] >> ops.Categorify()
        conts = ["x1", "x2"] >> ops.Normalize()
        targets = ["cat_a"] >> ops.TargetEncoding("label")
        groups = ["cat_a"] >> ops.JoinGroupby(cont_cols=["x1"], stats=["mean", "std"])
        doubled = ["x2"] >> ops.LambdaOp(lambda column: column * 2) >> ops.Rename(postfix="_double")
        return Workflow(cats + conts + targets + groups + doubled + ["id"])

    def clear(self):
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir()

    def _rows(self, loader):
        found = [batch["id"].numpy() for batch in map(features, loader)]
        return digest(np.sort(np.concatenate(found)))

    def shuffled(self):
        return self._rows(self.loader)

    def ordered(self):
        return self._rows(Loader(self.data(), 100, memory="300KB", threads=3))

    def weighted(self):
        return self._rows(Loader(self.data(), 100, shuffle=True, balance="label", memory="300KB", threads=3, seed=3))

    def filling(self):
        return self._rows(Loader(self.data(), 100, shuffle=True, cache=self.out / "stores", memory="1MB", threads=3))

    def build_cache(self):
        loader = Loader(self.data(), 100, cache=self.out / "stores", memory="1MB", threads=3)
        loader.build_cache()
        return self._rows(loader)

    def from_store(self):
        return self._rows(Loader(self.data(), 100, shuffle="full", cache=self.stored, memory="1MB", threads=3))

    def map_style(self):
        rows = self.data().as_map_style(columns=["id", "x1"], memory="1MB")
        return digest(np.array([int(rows[index]["id"]) for index in range(0, ROWS, 40)]))

    def map_style_stored(self):
        rows = self.data().as_map_style(cache=self.stored)
        return digest(np.array([int(rows[index]["id"]) for index in range(0, ROWS, 40)]))

    def tensordict(self):
        items = dataset_to_tensordict(Squares(), folder=self.out / "items", batch_size=100)
        return digest(items.tensordict["0"].numpy())

    def fit(self):
        return frame_digest(self.new_workflow().fit(self.data(), threads=3).transform(self.table))

    def transform_frame(self):
        return frame_digest(self.workflow.transform(self.table))

    def transform_dataset(self):
        return frame_digest(self.workflow.transform(self.data()).to_polars())

    def transform_to_parquet(self):
        self.workflow.transform(self.data()).to_parquet(self.out / "table")
        return frame_digest(pl.read_parquet(self.out / "table" / "*.parquet"))

    def to_parquet(self):
        self.data().to_parquet(self.out / "table", output_files=4)
        return frame_digest(pl.read_parquet(self.out / "table" / "*.parquet"))

    def to_parquet_shuffled(self):
        self.data().to_parquet(self.out / "table", output_files=2, shuffle=Shuffle.FULL, seed=1)
        return frame_digest(pl.read_parquet(self.out / "table" / "*.parquet"))

    def to_parquet_hive(self):
        self.data().to_parquet(self.out / "table", partition_on="label")
        return frame_digest(rowmill.Dataset(self.out / "table").to_polars())

    def shuffle_by_keys(self):
        return frame_digest(self.data().shuffle_by_keys(["cat_a"], npartitions=4).to_polars())

    def save_and_load(self):
        made = Workflow(["cat_a", "cat_b"] >> ops.Categorify()).fit(self.table)
        made.save(self.out / "workflow")
        return frame_digest(Workflow.load(self.out / "workflow").transform(self.table))

    def open_many(self):
        data = self.data("many")
        return str((data.num_rows, data.npartitions, data.source.fingerprint()))

    def open_ipc(self):
        data = self.data("ipc")
        return str((data.num_rows, data.source.fingerprint()))

    def open_csv(self):
        data = self.data("csv")
        return str((data.num_rows, data.source.fingerprint()))


NAMES = [name for name in vars(Works) if not name.startswith("_") and name not in ("data", "new_workflow", "clear")]


def features(batch):
    return batch[0] if isinstance(batch, tuple) else batch


def digest(array):
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()


def frame_digest(frame):
    return hashlib.sha256(frame.sort("id" if "id" in frame.columns else frame.columns).write_csv().encode()).hexdigest()


raised = 0


def interrupt(number, frame):
    """Ctrl-C, as Python's own handler does it, but for the code that looks at what is left."""
    global raised
    while frame is not None:
        if frame.f_code is work.__code__:
            raised += 1
            raise KeyboardInterrupt
        frame = frame.f_back


def work(run):
    return run()


def attempt(run):
    """How a work that may be interrupted ended: (class of its error or None, the traceback, what it returned)."""
    try:
        return None, "", work(run)
    except BaseException as error:  # noqa: BLE001 - told to whoever gave the order
        kind, text = type(error).__name__, "".join(traceback.format_exception(error))
        error.__traceback__ = None
    return kind, text, None


def handles():
    found = {}
    for name in os.listdir("/proc/self/fd"):
        try:
            found[name] = os.readlink(f"/proc/self/fd/{name}")
        except OSError:
            continue  # that of the listing itself
    return found


def threads():
    """Stacks of threads that are inside of Rowmill, or named after it."""
    names = {thread.ident: thread.name for thread in threading.enumerate() if thread.is_alive()}
    found = []
    for ident, frame in sys._current_frames().items():
        stack = traceback.extract_stack(frame)
        ours = any(line.filename.startswith(PACKAGE) for line in stack)
        if ident != threading.main_thread().ident and (ours or names.get(ident, "").startswith("rowmill")):
            found.append(f"{names.get(ident)}: " + "".join(traceback.format_list(stack[-6:])))
    return found


def ended(look, wanted, seconds=GRACE):
    """What is found when it is as wanted, or when the grace is over."""
    until = time.monotonic() + seconds
    while (found := look()) != wanted and time.monotonic() < until:
        gc.collect()
        time.sleep(0.005)
    return found


def new_handles(before):
    return sorted(f"{name}: {path}" for name, path in handles().items() if before.get(name) != path)


def serve(folder):
    works = Works(Path(folder))
    wanted, seconds = {}, {}
    for name in NAMES:
        for _ in range(2):
            works.clear()
            started = time.perf_counter()
            wanted[name] = getattr(works, name)()
            seconds[name] = time.perf_counter() - started
    signal.signal(signal.SIGINT, interrupt)
    signal.siginterrupt(signal.SIGINT, True)
    say({"ready": seconds})
    for line in sys.stdin:
        name = json.loads(line)["work"]
        say(one(works, name, wanted[name]))


def one(works, name, wanted):
    global raised
    ended(threads, [])  # a store may still be being completed
    works.clear()
    gc.collect()
    before, run, raised = handles(), getattr(works, name), 0
    say("go")
    kind, text, result = attempt(run)
    sys.stdin.readline()  # all signals are sent
    interrupts = raised
    problems = []
    if interrupts and kind != "KeyboardInterrupt":
        problems.append(f"{interrupts} interrupts, and then {kind}: {text}")
    if kind not in (None, "KeyboardInterrupt"):
        problems.append(f"{kind}: {text}")
    if result is not None and result != wanted:
        problems.append("other rows")
    if left := ended(threads, []):
        problems.append("threads left: " + "\n".join(left))
    if left := ended(lambda: new_handles(before), []):
        problems.append(f"handles left: {left}")
    if interrupts < 2 and (left := ended(lambda: os.listdir(works.temporary), [])):
        problems.append(f"temporary files left: {left}")
    if interrupts < 2 and (left := [name for name in os.listdir(works.out) if name.startswith(".")]):
        problems.append(f"unfinished output left: {left}")
    again, text, result = attempt(run)
    if again is not None or result != wanted:
        problems.append(f"done again: {again} {text}")
    return {"interrupts": interrupts, "kind": kind, "problems": problems, "where": text[-600:]}


def say(answer):
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    serve(sys.argv[1])
