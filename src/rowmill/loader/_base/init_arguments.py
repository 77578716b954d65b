"""`with_options`, the decorator of every loader's `__init__`: full signature, defaults, and the arguments given.

Comes in: an `__init__` with `**options: Unpack[SomeOptions]`. Goes out: one whose signature lists each option with type
and default, that names an unknown one, and that keeps what it was given in `_arguments`, so that the loader can be
made anew with fewer columns. Called by the loaders when their classes are defined.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from inspect import Parameter, Signature
from typing import Any, Concatenate, ParamSpec, TypeVar, cast, get_args, get_type_hints

from rowmill.errors import closest
from rowmill.loader._base.options import DEFAULTS, DOCS

P = ParamSpec("P")
L = TypeVar("L")
Init = Callable[Concatenate[L, P], None]


def with_options(**defaults: Any) -> Callable[[Init[L, P]], Init[L, P]]:
    """Decorate an `__init__` that takes shared options; `defaults` are those that differ from `options.DEFAULTS`.

    The `__init__` finds all its options in `options`, those that were not given with their defaults.
    """

    def decorate(init: Init[L, P]) -> Init[L, P]:
        signature = _full_signature(init, defaults)
        names = list(signature.parameters)[1:]
        shared = {name: signature.parameters[name].default for name in _options_of(init)}

        @functools.wraps(init)
        def checked_init(self: L, *args: Any, **kwargs: Any) -> None:
            for name in kwargs:
                if name not in names:
                    raise TypeError(
                        f"{type(self).__name__}() got an unexpected keyword argument {name!r}{closest(name, names)}"
                    )
            cast("Any", init)(self, *args, **{**shared, **kwargs})
            given = signature.bind(self, *args, **kwargs).arguments
            self.__dict__["_arguments"] = dict(list(given.items())[1:])

        cast("Any", checked_init).__signature__ = signature
        checked_init.__doc__ = _document(signature)
        return cast("Init[L, P]", checked_init)

    return decorate


def _options_of(init: Callable[..., Any]) -> dict[str, Any]:
    """The options that an `__init__` takes by its `**options: Unpack[...]`, with their types."""
    *_, last = inspect.signature(init, eval_str=True).parameters.values()
    (options,) = get_args(last.annotation)
    return get_type_hints(options)


def _full_signature(init: Callable[..., Any], defaults: Mapping[str, Any]) -> Signature:
    """The signature of an `__init__`, with a keyword for each option in place of `**options`."""
    *own, _ = inspect.signature(init, eval_str=True).parameters.values()
    known = {**DEFAULTS, **defaults}
    options = []
    for name, kind in _options_of(init).items():
        default = known[name]
        annotation = kind | None if default is None else kind
        options.append(Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
    return Signature([*own, *options], return_annotation=None)


def _document(signature: Signature) -> str:
    """What `help()` says of the parameters that loaders share."""
    lines = [f"`{name}`: {DOCS[name]}" for name in signature.parameters if name in DOCS]
    return "\n\n".join(["Settings that loaders share:", *lines])
