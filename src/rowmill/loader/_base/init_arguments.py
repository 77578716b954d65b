"""A loader that keeps the arguments it was made with, so that it can be made anew with fewer columns.

Called by the loaders, on their `__init__`.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar, cast

P = ParamSpec("P")
L = TypeVar("L")


def keep_arguments(init: Callable[Concatenate[L, P], None]) -> Callable[Concatenate[L, P], None]:
    """An `__init__` that leaves its arguments in `_arguments`, by name."""
    signature = inspect.signature(init)

    @functools.wraps(init)
    def made(self: L, *args: P.args, **kwargs: P.kwargs) -> None:
        init(self, *args, **kwargs)
        arguments = signature.bind(self, *args, **kwargs).arguments
        self.__dict__["_arguments"] = dict(list(arguments.items())[1:])

    return cast("Callable[Concatenate[L, P], None]", made)
