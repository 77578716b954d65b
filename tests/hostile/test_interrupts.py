"""Ctrl-C at any moment of any work: no thread, no file handle and no message stays behind, and nothing replaces the
KeyboardInterrupt. The work then succeeds when it is done again.
"""

import json
import os
import queue
import random
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.counts import hostile
from tests.hostile.common import ROOT

SECONDS = 60


class Child:
    """A process that works; see `interrupted`. A new one takes over where one hangs or dies."""

    def __init__(self, folder):
        self._folder, self._number, self._process = folder, 0, None
        self.seconds = {}

    def start(self):
        self._number += 1
        scratch = self._folder / str(self._number)
        scratch.mkdir()
        self._errors = scratch / "errors"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.hostile.interrupted", str(scratch)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors.open("w"),
            text=True,
            bufsize=1,
            env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}", "RUST_BACKTRACE": "0"},
        )
        self._lines, self._read = queue.Queue(), 0
        threading.Thread(target=self._listen, args=(self._process.stdout, self._lines), daemon=True).start()
        first = self._line(120)
        assert isinstance(first, dict), self._errors.read_text()[-3000:]
        self.seconds = first["ready"]
        self._errors_read = len(self._errors.read_text())

    @staticmethod
    def _listen(stream, lines):
        for line in stream:
            lines.put(line)
        lines.put("")

    def _line(self, seconds):
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            return "hangs"
        return json.loads(line) if line else "died"

    def _write(self, text):
        self._process.stdin.write(text + "\n")
        self._process.stdin.flush()

    def run(self, name, delays):
        """Interrupt a work after these delays. Gives the answer, with what was printed among its problems."""
        if self._process is None:
            self.start()
        self._write(json.dumps({"work": name}))
        assert self._line(SECONDS) == "go"
        for delay in delays:
            time.sleep(delay)
            self._process.send_signal(signal.SIGINT)
        self._write("sent")
        answer = self._line(SECONDS)
        printed = self._errors.read_text()[self._errors_read :]
        self._errors_read += len(printed)
        if not isinstance(answer, dict):
            self.stop()
            answer = {"interrupts": len(delays), "problems": [answer]}
        if printed:
            answer["problems"].append(f"printed: {printed[-2000:]}")
        return answer

    def stop(self):
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def moments(rng, seconds):
    """One interrupt at a random moment of a work, or several that follow each other closely."""
    first = rng.uniform(0, seconds * 1.1)
    if rng.random() < 0.5:
        return [first]
    return [first, *(rng.uniform(0, 0.004) for _ in range(rng.randrange(1, 8)))]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("lot", range(hostile(1, 10)))
def test_interrupts_leave_nothing_behind(tmp_path, tried, lot):
    rng = random.Random(int(os.environ.get("ROWMILL_HOSTILE_SEED", "1")) + lot)
    child, bad, tries, interrupts = Child(tmp_path), [], 0, 0
    child.start()
    only = os.environ.get("ROWMILL_HOSTILE_WORK", "").split()
    names = [name for name in child.seconds if not only or name in only]
    try:
        for number in range(hostile(40, 100)):
            name = names[(number + lot * 100) % len(names)]
            answer = child.run(name, moments(rng, child.seconds[name]))
            tries, interrupts = tries + 1, interrupts + answer["interrupts"]
            if answer["problems"]:
                bad.append((name, answer))
    finally:
        child.stop()
    print(f"{tries} works, {interrupts} interrupts that reached one, {len(bad)} violations")
    tried("interrupts of running work", interrupts)
    lines = [
        f"--- {name}, {answer['interrupts']} interrupts:\n" + "\n".join(answer["problems"]) for name, answer in bad
    ]
    assert not bad, f"{len(bad)} of {tries}:\n" + "\n".join(lines)
