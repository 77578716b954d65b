"""A function is told from a changed one by all that it reaches; what cannot be told is said."""

import functools
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from rowmill.graph.saved.function_digest import letters_of

MADE = """
import dataclasses, functools, math
import numpy as np
import polars as pl
K = {value}
TABLE = np.full(5000, 1.0); TABLE[2500] = {value}
FRAME = pl.DataFrame({{"a": [1, {value}]}})
SETTINGS = {{"deep": [1, (2, {{{value}}})]}}
def helper(x): return x * {value}
def outer(x): return helper(x) + math.sqrt(4)
def by_default(x, k={value}): return x * k
def by_keyword(x, *, k={value}): return x * k
def by_global(x): return x * K
def by_array(x): return x * TABLE
def by_frame(x): return x * FRAME["a"]
def by_settings(x): return SETTINGS["deep"]
def nested(x): return (lambda y: y * K)(x)
def recursive(x): return recursive(x - K) if x else 0
def enclosing(k):
    return lambda x: x * k
enclosed = enclosing({value})
class Times:
    def __init__(self, k): self.k = k
    def __call__(self, x): return x * self.k
    def method(self, x): return x * self.k
called, bound = Times({value}), Times({value}).method
class Fixed:
    def __call__(self, x): return x * {value}
by_class = Fixed()
@dataclasses.dataclass
class Data:
    k: int
    def __call__(self, x): return x * self.k
by_data = Data({value})
part = functools.partial(by_default, k={value})
by_constant = lambda x: x * {value}
"""
NAMES = [
    *("outer", "by_default", "by_keyword", "by_global", "by_array", "by_frame", "by_settings", "nested", "recursive"),
    *("enclosed", "called", "bound", "by_class", "by_data", "part", "by_constant"),
]


def made(value):
    space = {"__name__": "__main__"}
    exec(MADE.format(value=value), space)
    return space


def letters(function):
    doubts = []
    found = letters_of(function, doubts)
    assert doubts == []
    return found


@pytest.mark.parametrize("name", NAMES)
def test_a_changed_function_has_other_letters_and_the_same_one_the_same(name):
    one, same, other = (letters(made(value)[name]) for value in (2, 2, 3))
    assert one == same != other


def test_letters_are_the_same_in_another_process():
    code = textwrap.dedent("""
        import sys; sys.path[:0] = ["src", "."]
        from tests.graph.saved.test_function_digest import NAMES, letters, made
        print(*[letters(made(2)[name]) for name in NAMES])
    """)
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3])
    found = [run([sys.executable, "-c", code], env={"PYTHONHASHSEED": seed}).stdout.split() for seed in "12"]
    assert found[0] == found[1] == [letters(made(2)[name]) for name in NAMES]


def test_functions_of_packages_are_known_by_name():
    assert len({letters(f) for f in (np.log1p, np.log, np.mean, pl.Series.abs, str.upper, len, Path.exists)}) == 7


def test_what_cannot_be_told_is_said():
    lock, doubts = threading.Lock(), []
    letters_of(lambda x: (lock, x), doubts)
    assert doubts == ["an object of type _thread.lock"]
