"""A digest of what a user's function does: equal in another process, different once the function has changed.

Comes in: a function, as it was given to an operator. Goes out: text, and what could not be told of it. A function is
its code and all that the code reaches: constants, defaults, enclosed and global values, functions it calls, the object
it is bound to. What is installed is known by its name and version. Called by `save`.
"""

from __future__ import annotations

import dis
import functools
import hashlib
import re
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any

import numpy as np
import polars as pl

PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis), range, slice, np.generic, np.dtype)
NAMED = (FunctionType, BuiltinFunctionType, MethodDescriptorType, WrapperDescriptorType, type, np.ufunc)
INSTALLED = {Path(sysconfig.get_path(name)).resolve() for name in ("stdlib", "platstdlib", "purelib", "platlib")}
NOT_CODE = {"__dict__", "__weakref__", "__doc__", "__annotations__", "__dataclass_fields__", "__dataclass_params__"}


def letters_of(function: Any, doubts: list[str]) -> str:
    """Letters that change with what a function does. What they cannot tell is added to the doubts, in words."""
    return hashlib.sha256(repr(_Look(doubts).at(function)).encode()).hexdigest()


class _Look:
    """One look at a value and all that it leads to. A value that leads back to itself is seen once."""

    def __init__(self, doubts: list[str]) -> None:
        self._doubts, self._seen = doubts, dict[int, tuple[int, Any]]()

    def at(self, value: Any, names: frozenset[str] = frozenset()) -> object:
        """What a value is. `names`: of a module, the names that are used of it."""
        if isinstance(value, PLAIN):
            return type(value).__name__, repr(value)
        if not isinstance(value, ModuleType):
            if id(value) in self._seen:
                return "seen", self._seen[id(value)][0]
            self._seen[id(value)] = len(self._seen), value  # held, so that no other takes its number
        if isinstance(value, tuple | list):
            return type(value).__name__, [self.at(each, names) for each in value]
        if isinstance(value, set | frozenset):
            return "set", sorted(repr(_Look(self._doubts).at(each)) for each in value)
        if isinstance(value, Mapping) and type(value) is dict:
            return "dict", [(self.at(key), self.at(each)) for key, each in value.items()]
        if isinstance(value, np.ndarray) and not value.dtype.hasobject:
            return "array", repr(value.dtype), value.shape, hashlib.sha256(value.tobytes()).hexdigest()
        if isinstance(value, pl.DataFrame | pl.Series):
            return "frame", self._frame(value.to_frame() if isinstance(value, pl.Series) else value)
        if isinstance(value, ModuleType):
            return self._module(value, names)
        return self._code(value)

    def _code(self, value: Any) -> object:
        """What can be called, and objects of a user's own classes."""
        if (isinstance(value, NAMED) or _is_where_it_says(value)) and _is_installed(value):
            owner = getattr(value, "__self__", None)
            known = owner is None or isinstance(owner, ModuleType | type)
            return "installed", _name(value), _version(value), () if known else self.at(owner)
        if isinstance(value, FunctionType):
            return "function", *self._function(value)
        if isinstance(value, MethodType):
            return "method", self.at(value.__func__), self.at(value.__self__)
        if isinstance(value, functools.partial):
            return "partial", self.at(value.func), self.at(value.args), self.at(value.keywords)
        if isinstance(value, staticmethod | classmethod):
            return type(value).__name__, self.at(value.__func__)
        if isinstance(value, property):
            return "property", self.at(value.fget)
        if isinstance(value, re.Pattern | pl.DataType | pl.datatypes.DataTypeClass):
            return type(value).__name__, repr(value)
        if isinstance(value, type):
            own = {name: each for name, each in vars(value).items() if name not in NOT_CODE}
            return "class", value.__qualname__, self.at(value.__bases__), self.at(own)
        if not _is_installed(type(value)) and hasattr(value, "__dict__") and not hasattr(type(value), "__slots__"):
            return "object", self.at(type(value)), self.at(vars(value))
        self._doubts.append(f"an object of type {type(value).__module__}.{type(value).__qualname__}")
        return "unknown", type(value).__qualname__

    def _function(self, function: FunctionType) -> Iterator[object]:
        codes = list(_codes(function.__code__))
        names = frozenset(name for code in codes for name in code.co_names)
        for code in codes:
            consts = [const for const in code.co_consts if not isinstance(const, CodeType)]
            yield code.co_code, code.co_names, code.co_varnames, code.co_freevars, self.at(consts)
        yield self.at([function.__defaults__, function.__kwdefaults__])
        for cell in function.__closure__ or ():
            try:
                yield self.at(cell.cell_contents, names)
            except ValueError:  # nothing in it yet
                yield "empty"
        for name in sorted({name for code in codes for name in _globals(code)} & function.__globals__.keys()):
            yield name, self.at(function.__globals__[name], names)

    def _module(self, module: ModuleType, names: frozenset[str]) -> object:
        if _is_installed(module):
            return "module", module.__name__, _version(module)
        if id(module) in self._seen:
            return "seen", module.__name__
        self._seen[id(module)] = len(self._seen), module
        used = sorted(names & vars(module).keys())
        return "module", module.__name__, [(name, self.at(vars(module)[name], names)) for name in used]

    def _frame(self, frame: pl.DataFrame) -> object:
        hashes = frame.hash_rows(seed=0).to_numpy().tobytes() if frame.width else b""
        return repr(frame.schema), hashlib.sha256(hashes).hexdigest()


def _codes(code: CodeType) -> Iterator[CodeType]:
    """A function's code, and that of functions within it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _codes(const)


def _globals(code: CodeType) -> Iterator[str]:
    """The global names that code reads."""
    for step in dis.get_instructions(code):
        if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
            yield step.argval


def _is_installed(value: Any) -> bool:
    """Whether a module, or where a value was defined, is part of Python or of a package that is installed."""
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or "builtins"
    file = getattr(sys.modules.get(name), "__file__", None)
    if name == "__main__":  # the user's own, whoever runs it
        return False
    if file is None:
        return name in sys.builtin_module_names or not isinstance(value, FunctionType | type | ModuleType)
    folders = Path(file).resolve().parents
    return not INSTALLED.isdisjoint(folders) or name.partition(".")[0] == "rowmill"


def _is_where_it_says(value: Any) -> bool:
    """Whether a value stands under its name in the module it names."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    return isinstance(name, str) and getattr(sys.modules.get(str(module)), name, None) is value


def _name(value: Any) -> str:
    return f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', getattr(value, '__name__', ''))}"


def _version(value: Any) -> str:
    name = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", None) or ""
    return str(getattr(sys.modules.get(name.partition(".")[0]), "__version__", ""))
