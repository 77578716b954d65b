"""A process that runs epochs in forked children, each of which may be killed or run out of disk at a given moment.

Orders come as JSON lines, answers go as JSON lines. The parent imports everything, but never lets Polars start its
threads, which a fork would not copy; so a child costs some 50 ms instead of a second.
"""

import errno
import json
import os
import signal
import sys
import threading
import time
import warnings

from tests.store.common import digest, settle, stream

EVENTS = ("open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.utime", "fcntl.", "mmap.", "os.truncate")
CALLS = ("pwrite", "write", "fsync", "posix_fallocate", "ftruncate", "pread", "memfd_create")


class Counter:
    """Counts file operations of the cache, and does something at one of them."""

    def __init__(self, at, action, only):
        self.seen, self.at, self.action, self.only = 0, at, action, only
        self.armed = True

    def passed(self, name):
        """Count this operation; True if it is the one."""
        if not self.armed or (self.only and name not in self.only):
            return False
        self.seen += 1
        return self.seen == self.at if self.action != "full" else self.seen >= self.at


def watch(counter, cache):
    def hook(event, arguments):
        if event.startswith(EVENTS):
            path = str(arguments[0]) if arguments else ""
            mine = event.startswith(("fcntl.", "mmap.")) or cache in path or not path.startswith("/")
            if mine and counter.passed(event) and counter.action == "kill":
                os.kill(os.getpid(), signal.SIGKILL)

    def wrapped(name, call):
        def replaced(*arguments):
            if counter.passed(name):
                if counter.action == "kill":
                    if name in ("pwrite", "write") and len(arguments[1]) > 1:
                        half = memoryview(arguments[1])[: len(arguments[1]) // 2]
                        call(arguments[0], half, *arguments[2:])
                    os.kill(os.getpid(), signal.SIGKILL)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return call(*arguments)

        return replaced

    for name in CALLS:
        setattr(os, name, wrapped(name, getattr(os, name)))
    sys.addaudithook(hook)


def run(order):
    """What a child does: epochs with a cache; returns their digests, warnings, and how much it did to files."""
    counter = Counter(order.get("at", 0), order.get("action", ""), order.get("only"))
    if "wait" in order:
        while time.time() < order["wait"]:
            time.sleep(0.0005)
    if "after" in order:
        threading.Timer(order["after"], lambda: os.kill(os.getpid(), signal.SIGKILL)).start()
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        made = stream(order["folder"], order["cache"], **order.get("options", {}))
        write = counter_of_pieces(made)
        watch(counter, order["cache"])
        digests = []
        for _ in range(order.get("epochs", 1)):
            digests.append(digest(made.batches()))
            settle(made)
        text = made.cached.text()
    counter.armed = False
    texts = [str(w.message) for w in seen]
    counts = {"operations": counter.seen, "written": write[0]}
    return {"digests": digests, "warnings": texts, **counts, "text": text}


def counter_of_pieces(made):
    from rowmill.store.store import Store

    rows, record = [0], Store.record

    def counted(self, pieces):
        record(self, pieces)
        rows[0] += sum(piece.rows for piece in pieces)

    Store.record = counted
    return rows


def child(order, run=run):
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            os.close(reading)
            send = os.fdopen(writing, "w")
            json.dump(run(order), send)
            send.close()
            status = 0
        finally:
            os._exit(status)
    os.close(writing)
    return pid, os.fdopen(reading)


def main():
    for line in sys.stdin:
        orders = json.loads(line)
        children = [child(order) for order in orders]
        answers = []
        for pid, pipe in children:
            text = pipe.read()
            _, status = os.waitpid(pid, 0)
            answers.append(json.loads(text) if status == 0 else {"signal": os.WTERMSIG(status), "status": status})
        print(json.dumps(answers), flush=True)


if __name__ == "__main__":
    main()
