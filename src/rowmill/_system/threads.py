"""Threads that no signal leaves behind: a function in, threads that run it out, or the results of all its calls.

Python runs signal handlers on the main thread, between any two steps of its code; Ctrl-C raises KeyboardInterrupt
there. Inside of `Thread.start`, of `Thread.join` or of a `Condition`, which are written in Python, that can leave a
lock held for ever, and with it a thread. Here the main thread only calls compiled code: a thread that gets no signals
starts the others, and `SimpleQueue` says when they end. Called wherever Rowmill needs threads.
"""

from __future__ import annotations

import _thread
import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import TracebackType
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

PATIENCE = 2.0  # seconds that an interrupt waits for threads to finish what they are at
_LOOK = 0.25  # seconds after which the end of a thread is seen even if the word of it was lost to a signal

# Letting go of a `Thread` runs Python code of `threading`, in a place where Ctrl-C would be lost and a message printed.
# So all are here, and a thread that starts others lets go of those that have ended: it gets no signals.
_known: list[threading.Thread] = []


class ThreadGroup:
    """`count` threads that run the same function. It must not raise, and ends by itself or when it is told to."""

    def __init__(self, count: int, name: str, *, daemon: bool = True) -> None:
        self._count, self._name, self._daemon = count, name, daemon
        self._starter: list[int] = []
        self._threads: list[threading.Thread] = []
        self._ended: list[None] = []  # an entry for each thread that has
        self._news: SimpleQueue[None] = SimpleQueue()
        self._process = os.getpid()
        self.error: BaseException | None = None  # of a thread that could not be started

    def start(self, target: Callable[[], Any]) -> None:
        """Let the threads run `target()`. It is not kept: it may be a method of the one who has the group."""
        # One compiled call: a thread that was started is in the list, whatever interrupts.
        self._starter.extend(map(_thread.start_new_thread, [self._start], [(target,)]))

    def is_alive(self) -> bool:
        """Whether any of the threads has not ended. In a forked process there are none."""
        return bool(self._starter) and len(self._ended) < self._count and os.getpid() == self._process

    def join(self, timeout: float | None = None) -> bool:
        """Wait until all have ended; False if that takes longer."""
        until = None if timeout is None else time.monotonic() + timeout
        while self.is_alive():
            left = _LOOK if until is None else min(_LOOK, until - time.monotonic())
            if left <= 0:
                return False
            with suppress(Empty):
                self._news.get(timeout=left)
        for thread in self._threads:
            thread.join(timeout)  # they have nothing left to do
        self._threads.clear()
        return True

    def _start(self, target: Callable[[], Any]) -> None:
        _known[:] = [thread for thread in _known if thread.is_alive()]
        for number in range(self._count):
            try:
                name, arguments = f"{self._name}-{number}", (target,)
                thread = threading.Thread(target=self._run, args=arguments, name=name, daemon=self._daemon)
                thread.start()
            except BaseException as error:  # noqa: BLE001 - whoever waits looks at it
                self.error = error
                self._end()

    def _run(self, target: Callable[[], Any]) -> None:
        thread = threading.current_thread()
        _known.append(thread)
        self._threads.append(thread)
        try:
            target()
        finally:
            self._end()

    def _end(self) -> None:
        self._ended.append(None)
        self._news.put(None)


class Cancel:
    """Set where work is no longer wanted; long work looks at it from time to time."""

    def __init__(self) -> None:
        self.requested = False


def map_threads(
    function: Callable[[T], R], items: Iterable[T], threads: int, name: str, cancel: Cancel | None = None
) -> list[R]:
    """The results of a function for each item, in order. The error of the first item that has one is raised.

    An error or an interrupt lets threads finish the item that they are at; an interrupt waits two seconds for that.
    """
    stop = Cancel() if cancel is None else cancel
    results: dict[int, R] = {}
    errors: dict[int, BaseException] = {}
    todo, lock = iter(enumerate(items)), threading.Lock()

    def work() -> None:
        while not stop.requested:
            with lock:
                number, item = next(todo, (-1, None))
            if number < 0:
                return
            try:
                results[number] = function(item)  # type: ignore[arg-type]
            except BaseException as error:  # noqa: BLE001 - raised below
                errors[number] = error
                stop.requested = True

    run_threads(work, threads, name, stop)
    if errors:
        raise errors[min(errors)]
    return [results[number] for number in range(len(results))]


def run_apart(function: Callable[[], Any]) -> None:
    """Run a function that must not raise on a thread that no signal reaches, and wait for it. It runs to its end.

    An interrupt that comes meanwhile is raised once it has ended, so that no thread is left behind.
    """
    group = ThreadGroup(1, "rowmill-apart")
    interrupt: BaseException | None = None
    try:
        group.start(function)
    except BaseException as error:  # noqa: BLE001 - raised below
        interrupt = error
    while group.is_alive():
        try:
            group.join()
        except BaseException as error:  # noqa: BLE001 - raised below
            interrupt = interrupt or error
    if interrupt is not None:
        raise interrupt


class Writer(Generic[T]):
    """A thread that does something with one item while the next is made. Used as a context; `put` waits for the item
    before, and raises what went wrong with it."""

    def __init__(self, function: Callable[[T], Any], name: str) -> None:
        self._function = function
        self._items: SimpleQueue[T | None] = SimpleQueue()
        self._done: SimpleQueue[BaseException | None] = SimpleQueue()
        self._waiting = self._closed = False
        self._thread = ThreadGroup(1, name)

    def __enter__(self) -> Writer[T]:
        self._thread.start(self._work)
        return self

    def put(self, item: T) -> None:
        self._wait()
        self._waiting = True
        self._items.put(item)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closed = True
        self._items.put(None)
        if error is not None:
            self._thread.join(PATIENCE)
        else:
            self._wait()
            self._thread.join()

    def _wait(self) -> None:
        if self._waiting and (error := self._done.get()) is not None:
            raise error
        self._waiting = False

    def _work(self) -> None:
        while True:
            try:
                item = self._items.get(timeout=_LOOK)
            except Empty:
                item = None
            if item is None:
                if self._closed:
                    return
                continue
            try:
                self._function(item)
            except BaseException as error:  # noqa: BLE001 - raised by `put`
                self._done.put(error)
            else:
                self._done.put(None)


def run_threads(work: Callable[[], Any], threads: int, name: str, stop: Cancel, patience: float = PATIENCE) -> None:
    """Run `work` on some threads until all have ended. An interrupt sets `stop` and waits some seconds."""
    group = ThreadGroup(threads, name)
    try:
        group.start(work)
        group.join()
    except BaseException:
        stop.requested = True
        group.join(patience)
        raise
    if group.error is not None:
        raise group.error
