"""Ctrl-C that is never lost: public calls run inside of `interruptible`, which raises what a library has swallowed.

A signal handler runs at the next step of Python code, or wherever a library calls `PyErr_CheckSignals`; converting a
name to text does. Some compiled libraries drop the KeyboardInterrupt that comes from there and go on with a wrong
value, so that another error follows. The same happens in a destructor. In both cases Python prints "Exception ignored".
While a public call runs on the main thread, the handler of SIGINT is one that remembers what it raised: at the end of
the call it is raised again if it has not come through by itself.
"""

from __future__ import annotations

import functools
import signal
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


class KeepInterrupts:
    """A context whose interrupts come through: an exception that the SIGINT handler raised in it leaves it, whatever
    happened to that exception inside. Contexts can be nested; on other threads than the main one they do nothing."""

    __slots__ = ("_handler", "_hook", "_raised")

    def __init__(self) -> None:
        self._handler: Any = None
        self._hook: Any = None
        # What the handler raised, as class and arguments: the exception itself would keep all frames alive. A context
        # whose end is interrupted stays the handler.
        self._raised: tuple[type[BaseException], tuple[Any, ...]] | None = None

    def __enter__(self) -> None:
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler) and threading.get_ident() == threading.main_thread().ident:
            self._handler, self._hook = handler, sys.unraisablehook
            sys.unraisablehook = self._show
            signal.signal(signal.SIGINT, self._interrupt)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handler is None:
            return
        try:
            signal.signal(signal.SIGINT, self._handler)  # raises the interrupt that is pending, if one is
        finally:
            sys.unraisablehook = self._hook
            signal.signal(signal.SIGINT, self._handler)
        raised, self._raised = self._raised, None
        if raised is not None and (kind is None or not issubclass(kind, raised[0])):
            raise raised[0](*raised[1]) from error

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        try:
            self._handler(number, frame)
        except BaseException as error:
            self._raised = type(error), error.args
            raise

    def _show(self, unraisable: Any) -> None:
        """Python's hook for errors that cannot be raised. An interrupt can: `__exit__` does it."""
        if self._raised is None or unraisable.exc_type is not self._raised[0]:
            self._hook(unraisable)


def interruptible(function: Callable[P, R]) -> Callable[P, R]:
    """The function, run inside of `KeepInterrupts`."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        with KeepInterrupts():
            return function(*args, **kwargs)

    return call
