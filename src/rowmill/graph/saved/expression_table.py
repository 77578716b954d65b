"""The closed table of what a saved expression may call: our name, Polars' name, checked options, and the constructor.

The name is also the method of `polars.Expr` that builds it, unless `build` says otherwise. Nothing that is read from a
file is looked up anywhere but here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from rowmill.graph.saved.literals import MAX_WIDTH, dtype, integer, refused, text

Check = Callable[[Any], Any]
MANY = 1_000  # inputs of a function that takes any number of them


@dataclass(frozen=True)
class Function:
    """What may be called: `inputs` are expressions, `options` are constants, by Polars' name for each of them."""

    path: str  # Polars' name: `StringExpr.Contains`; a single unnamed option has the name ""
    inputs: tuple[int, int] = (1, 1)  # at least and at most
    options: Mapping[str, tuple[str, Check]] = field(default_factory=dict)  # Polars' name: our name and its check
    constants: Mapping[int, Check] = field(default_factory=dict)  # inputs that must be constants, and their checks
    grows: Callable[[list[Any], dict[str, Any]], float] | None = None  # how many times longer a value may become
    build: Callable[..., pl.Expr] | None = None


def _bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise refused(f"{str(value)[:40]!r} as a flag")
    return value


def _int(low: int, high: int) -> Check:
    return lambda value: integer(value, low, high, "a number")


def _optional(check: Check) -> Check:
    return lambda value: None if value is None else check(value)


def _text(most: int) -> Check:
    return lambda value: text(value, "a text", most)


def _choice(**known: Any) -> Check:
    def check(value: Any) -> Any:
        if not isinstance(value, str) or value not in known:
            raise refused(f"{str(value)[:40]!r} as an option (allowed: {', '.join(known)})")
        return known[value]

    return check


def _only(*known: Any) -> Check:
    """One of these values: they do not change the result, or are the only ones that can be built again."""

    def check(value: Any) -> Any:
        if not any(value is each for each in known):
            raise refused(f"{str(value)[:40]!r} as an option")
        return value

    return check


def _zone(value: Any) -> str | None:
    if isinstance(value, dict) and set(value) == {"inner"}:
        return str(dtype(f"datetime[us, {text(value['inner'], 'a time zone', 64)}]").time_zone)  # type: ignore[attr-defined]
    raise refused(f"{str(value)[:40]!r} as a time zone")


def _span(value: Any) -> str:
    """A span of time such as `1d` or `-3mo12h`."""
    if not re.fullmatch(r"-?(?:\d{1,6}(?:ns|us|ms|s|m|h|d|w|mo|q|y))+", text(value, "a span of time", 40)):
        raise refused(f"{value!r} as a span of time")
    return str(value)


def _pattern(value: Any) -> str:
    """A regular expression of bounded size. Polars matches in linear time, but counted repetitions multiply."""
    size = 1
    for counts in re.findall(r"\{\s*(\d*)\s*,?\s*(\d*)\s*\}", text(value, "a regular expression", 1_000)):
        size *= max((int(count[:9]) for count in counts if count), default=1) or 1
    if size > 1_000:
        raise refused(f"the regular expression {value[:40]!r} with more than 1,000 counted repetitions")
    return str(value)


_AMBIGUOUS = _choice(**{"raise": "raise", "earliest": "earliest", "latest": "latest", "null": "null"})
_NONE = {"None": "none"}
_SIZE = _int(-(1 << 31), (1 << 31) - 1)
_ANY_TEXT = _text(1_000)
_UNIT = _choice(Nanoseconds="ns", Microseconds="us", Milliseconds="ms")
_FLAG = ("", _bool)
_STRICT_PATTERN = {"literal": ("literal", _bool), "strict": ("strict", _bool)}
_NULLS = {"ignore_nulls": ("ignore_nulls", _bool)}
_ROUNDING = _choice(HalfToEven="half_to_even", HalfAwayFromZero="half_away_from_zero", ToZero="to_zero")


def _padded(inputs: list[Any], options: dict[str, Any]) -> float:
    return max(1.0, float(inputs[1]) / 4)


def _replaced(inputs: list[Any], options: dict[str, Any]) -> float:
    """A match becomes the new text; an empty pattern matches between any two letters."""
    old, new = len(str(inputs[1]).encode()), len(str(inputs[2]).encode())
    return max(1.0, new / old) if options["literal"] and old else 2.0 * new + 1


def _replace(x: pl.Expr, old: pl.Expr, new: pl.Expr, *, n: int, literal: bool) -> pl.Expr:
    if n == -1:
        return x.str.replace_all(old, new, literal=literal)
    return x.str.replace(old, new, literal=literal, n=n)


def _replace_strict(x: pl.Expr, old: pl.Expr, new: pl.Expr, *default: pl.Expr, return_dtype: None) -> pl.Expr:
    return x.replace_strict(old, new, default=default[0]) if default else x.replace_strict(old, new)


def _clip(x: pl.Expr, *bounds: pl.Expr, has_min: bool, has_max: bool) -> pl.Expr:
    if len(bounds) != has_min + has_max:
        raise refused("clip without its bounds")
    return x.clip(bounds[0] if has_min else None, bounds[-1] if has_max else None)


def _strptime(x: pl.Expr, ambiguous: pl.Expr, *, to: pl.DataType, parsing: dict[str, Any]) -> pl.Expr:
    made: Any = to
    if not isinstance(parsing, dict) or set(parsing) != {"format", "strict", "exact", "cache"} or to not in _MOMENTS:
        raise refused("a conversion of texts to times with unknown options")
    flags = {key: _bool(parsing[key]) for key in ("strict", "exact", "cache")}
    return x.str.strptime(made, _optional(_text(100))(parsing["format"]), ambiguous=ambiguous, **flags)


_SPANS = ("weeks", "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")
_MOMENTS = (pl.Date(), pl.Time(), *(pl.Datetime(unit) for unit in ("ns", "us", "ms")))


def _fill(value: Any) -> tuple[str, int | None]:
    """How nulls are filled: the name of a strategy, and how many in a row."""
    if isinstance(value, dict) and len(value) == 1:
        ((way, limit),) = value.items()
        return _choice(Forward="forward", Backward="backward")(way), _optional(_int(0, 1 << 31))(limit)
    return _choice(Min="min", Max="max", Mean="mean", Zero="zero", One="one")(value), None


def _parts(names: Any) -> list[int]:
    if not isinstance(names, list) or len(names) > MANY:
        raise refused("places of a format")
    return [integer(name, 0, 65_536, "the place of a value") for name in names]


def _formatted(*exprs: pl.Expr, format: str, insertions: list[int]) -> pl.Expr:
    pieces, last = [], 0
    data = format.encode()
    if len(insertions) != len(exprs) or insertions != sorted(insertions) or (insertions and insertions[-1] > len(data)):
        raise refused("a format with other places than values")
    for place in insertions:
        pieces.append(data[last:place].decode(errors="strict"))
        last = place
    tail = data[last:].decode()
    if any("{}" in piece for piece in (*pieces, tail)):
        raise refused("a format with braces")
    return pl.format("{}".join([*pieces, tail]), *exprs)


def _plain(prefix: str, names: str, polars_prefix: str) -> dict[str, Function]:
    """Functions of one input without options: `method=PolarsName`, or a method that has Polars' name in lower case."""
    made = {}
    for entry in names.split():
        ours, _, theirs = entry.partition("=")
        theirs = theirs or "".join(part.capitalize() for part in ours.split("_"))
        made[prefix + ours] = Function(polars_prefix + theirs)
    return made


def _horizontal(function: Callable[..., pl.Expr]) -> dict[str, Any]:
    return {"inputs": (1, MANY), "build": function}


FUNCTIONS: dict[str, Function] = {
    **_plain("", "abs exp log1p sign floor ceil neg=Negate drop_nulls drop_nans reverse to_physical erf erfc", ""),
    **_plain("", "sqrt cbrt", "Pow."),
    **_plain("", "sin cos tan cot arcsin=ArcSin arccos=ArcCos arctan=ArcTan sinh cosh tanh arcsinh=ArcSinh "
                 "arccosh=ArcCosh arctanh=ArcTanh degrees radians", "Trigonometry."),
    **_plain("", "is_null is_not_null is_nan is_not_nan is_finite is_infinite not_=Not is_unique is_duplicated "
                 "is_first_distinct is_last_distinct", "Boolean."),
    **_plain("", "bitwise_count_ones=CountOnes bitwise_count_zeros=CountZeros bitwise_leading_ones=LeadingOnes "
                 "bitwise_leading_zeros=LeadingZeros bitwise_trailing_ones=TrailingOnes "
                 "bitwise_trailing_zeros=TrailingZeros", "Bitwise."),
    **_plain("str.", "to_lowercase=Lowercase to_uppercase=Uppercase to_titlecase=Titlecase len_chars len_bytes reverse",
             "StringExpr."),
    "str.escape_regex": Function("StringExpr.EscapeRegex", grows=lambda i, o: 2.0),
    **_plain("dt.", "year iso_year quarter month week weekday=WeekDay day ordinal_day hour minute second millisecond "
                    "microsecond nanosecond century millennium is_leap_year days_in_month month_start month_end date "
                    "time base_utc_offset dst_offset=DSTOffset", "TemporalExpr."),
    **_plain("list.", "len=Length sum mean min max median arg_min arg_max drop_nulls", "ListExpr."),
    **_plain("arr.", "len=Length sum mean min max median arg_min arg_max to_list", "ArrayExpr."),
    "pow": Function("Pow.Generic", (2, 2)),
    "log": Function("Log", (2, 2)),
    "arctan2": Function("Atan2", (2, 2), build=pl.arctan2),
    "round": Function("Round", options={"decimals": ("decimals", _int(0, 30)), "mode": ("mode", _ROUNDING)}),
    "round_sig_figs": Function("RoundSF", options={"digits": ("digits", _int(1, 30))}),
    "truncate": Function("Truncate", options={"decimals": ("decimals", _int(0, 30))}),
    "clip": Function("Clip", (2, 3), {"has_min": ("has_min", _bool), "has_max": ("has_max", _bool)}, build=_clip),
    "fill_null": Function("FillNull", (2, 2)),
    "fill_null_by": Function("FillNullWithStrategy", options={"": ("way", _fill)},
                             build=lambda x, way: x.fill_null(strategy=way[0], limit=way[1])),
    "hash": Function("Hash", options={"": ("seed", _int(0, (1 << 64) - 1))}),
    "shift": Function("Shift", (2, 2), constants={1: _SIZE}),
    "diff": Function("Diff", (2, 2), {"": ("null_behavior", _choice(Ignore="ignore"))}, {1: _SIZE}),
    **{f"cum_{name}": Function(f"Cum{name.capitalize()}", options={"reverse": ("reverse", _bool)})
       for name in ("sum", "min", "max", "count", "prod")},
    "is_between": Function("Boolean.IsBetween", (3, 3),
                           {"closed": ("closed", _choice(Both="both", Left="left", Right="right", **_NONE))}),
    "is_in": Function("Boolean.IsIn", (2, 2), {"nulls_equal": ("nulls_equal", _bool)}),
    "repeat_by": Function("RepeatBy", (2, 2), constants={1: _int(0, MAX_WIDTH)},
                          grows=lambda i, o: max(1.0, i[1])),
    "replace": Function("Replace", (3, 3)),
    "replace_strict": Function("ReplaceStrict", (3, 4), {"return_dtype": ("return_dtype", _only(None))},
                               build=_replace_strict),
    "unique": Function("Unique", options={"": ("maintain_order", _bool)}),
    "any": Function("Boolean.Any", options=_NULLS),
    "all": Function("Boolean.All", options=_NULLS),
    "datetime": Function("TemporalExpr.DatetimeFunction", (8, 8), {
        "time_unit": ("time_unit", _UNIT), "time_zone": ("time_zone", _only(None))}, {7: _AMBIGUOUS},
        build=lambda *x, time_unit, time_zone: pl.datetime(*x[:7], time_unit=time_unit, ambiguous=x[7])),
    "duration": Function("TemporalExpr.Duration", (8, 8), {"": ("time_unit", _UNIT)},
                         build=lambda *x, time_unit: pl.duration(
                             **dict(zip(_SPANS, x, strict=True)), time_unit=time_unit)),
    "coalesce": Function("Coalesce", **_horizontal(lambda *x: pl.coalesce(*x))),
    "struct": Function("AsStruct", **_horizontal(lambda *x: pl.struct(*x))),
    "max_horizontal": Function("MaxHorizontal", **_horizontal(lambda *x: pl.max_horizontal(*x))),
    "min_horizontal": Function("MinHorizontal", **_horizontal(lambda *x: pl.min_horizontal(*x))),
    "any_horizontal": Function("Boolean.AnyHorizontal", **_horizontal(lambda *x: pl.any_horizontal(*x))),
    "all_horizontal": Function("Boolean.AllHorizontal", **_horizontal(lambda *x: pl.all_horizontal(*x))),
    "sum_horizontal": Function("SumHorizontal", options=_NULLS,
                               **_horizontal(lambda *x, ignore_nulls: pl.sum_horizontal(
                                   *x, ignore_nulls=ignore_nulls))),
    "mean_horizontal": Function("MeanHorizontal", options=_NULLS, **_horizontal(
        lambda *x, ignore_nulls: pl.mean_horizontal(*x, ignore_nulls=ignore_nulls))),
    "concat_list": Function("ListExpr.Concat", **_horizontal(lambda *x: pl.concat_list(*x))),
    "concat_str": Function("StringExpr.ConcatHorizontal", options={
        "delimiter": ("separator", _ANY_TEXT), "ignore_nulls": ("ignore_nulls", _bool)}, **_horizontal(
        lambda *x, separator, ignore_nulls: pl.concat_str(*x, separator=separator, ignore_nulls=ignore_nulls))),
    "format": Function("StringExpr.Format", (1, MANY), {
        "format": ("format", _ANY_TEXT), "insertions": ("insertions", _parts)}, build=_formatted),
    "str.contains": Function("StringExpr.Contains", (2, 2), _STRICT_PATTERN, {1: _pattern}),
    "str.find": Function("StringExpr.Find", (2, 2), _STRICT_PATTERN, {1: _pattern}),
    "str.count_matches": Function("StringExpr.CountMatches", (2, 2), {"": ("literal", _bool)}, {1: _pattern}),
    "str.extract": Function("StringExpr.Extract", (2, 2), {"": ("group_index", _int(0, 100))}, {1: _pattern}),
    "str.extract_all": Function("StringExpr.ExtractAll", (2, 2), constants={1: _pattern}, grows=lambda i, o: 16.0),
    "str.replace": Function("StringExpr.Replace", (3, 3), {
        "n": ("n", _int(-1, 1_000_000)), "literal": ("literal", _bool)}, {1: _pattern, 2: _ANY_TEXT},
        grows=_replaced, build=_replace),
    "str.starts_with": Function("StringExpr.StartsWith", (2, 2)),
    "str.ends_with": Function("StringExpr.EndsWith", (2, 2)),
    "str.strip_chars": Function("StringExpr.StripChars", (2, 2)),
    "str.strip_chars_start": Function("StringExpr.StripCharsStart", (2, 2)),
    "str.strip_chars_end": Function("StringExpr.StripCharsEnd", (2, 2)),
    "str.strip_prefix": Function("StringExpr.StripPrefix", (2, 2)),
    "str.strip_suffix": Function("StringExpr.StripSuffix", (2, 2)),
    "str.slice": Function("StringExpr.Slice", (3, 3)),
    "str.head": Function("StringExpr.Head", (2, 2)),
    "str.tail": Function("StringExpr.Tail", (2, 2)),
    "str.split": Function("StringExpr.Split", (2, 2), {"": ("inclusive", _bool)}, {1: _ANY_TEXT},
                          grows=lambda i, o: 16.0),
    "str.splitn": Function("StringExpr.SplitN", (2, 2), {"": ("n", _int(1, 100))}, {1: _ANY_TEXT},
                           grows=lambda i, o: o["n"]),
    "str.split_exact": Function("StringExpr.SplitExact", (2, 2), {
        "n": ("n", _int(1, 100)), "inclusive": ("inclusive", _bool)}, {1: _ANY_TEXT}, grows=lambda i, o: o["n"]),
    "str.pad_start": Function("StringExpr.PadStart", (2, 2), {"fill_char": ("fill_char", _text(1))},
                              {1: _int(0, MAX_WIDTH)}, _padded),
    "str.pad_end": Function("StringExpr.PadEnd", (2, 2), {"fill_char": ("fill_char", _text(1))},
                            {1: _int(0, MAX_WIDTH)}, _padded),
    "str.zfill": Function("StringExpr.ZFill", (2, 2), constants={1: _int(0, MAX_WIDTH)}, grows=_padded),
    "str.to_integer": Function("StringExpr.ToInteger", (2, 2), {
        "dtype": ("dtype", _choice(Int8=pl.Int8, Int16=pl.Int16, Int32=pl.Int32, Int64=pl.Int64, UInt8=pl.UInt8,
                                   UInt16=pl.UInt16, UInt32=pl.UInt32, UInt64=pl.UInt64)),
        "strict": ("strict", _bool)}, {1: _int(2, 36)},
        build=lambda x, base, *, dtype, strict: x.str.to_integer(base=base, dtype=dtype, strict=strict)),
    "str.strptime": Function("StringExpr.Strptime", (2, 2), {"0": ("to", dtype), "1": ("parsing", lambda x: x)},
                             {1: _AMBIGUOUS}, build=_strptime),
    "dt.strftime": Function("TemporalExpr.ToString", options={"": ("format", _text(100))}, grows=lambda i, o: 16.0),
    "dt.truncate": Function("TemporalExpr.Truncate", (2, 2), constants={1: _span}),
    "dt.round": Function("TemporalExpr.Round", (2, 2), constants={1: _span}),
    "dt.offset_by": Function("TemporalExpr.OffsetBy", (2, 2), constants={1: _span}),
    "dt.replace_time_zone": Function("TemporalExpr.ReplaceTimeZone", (2, 2), {
        "0": ("time_zone", _optional(_zone)), "1": ("non_existent", _choice(Raise="raise", Null="null"))},
        {1: _AMBIGUOUS}, build=lambda x, ambiguous, *, time_zone, non_existent: x.dt.replace_time_zone(
            time_zone, ambiguous=ambiguous, non_existent=non_existent)),
    "dt.timestamp": Function("TemporalExpr.TimeStamp", options={"": ("time_unit", _UNIT)}),
    "dt.cast_time_unit": Function("TemporalExpr.CastTimeUnit", options={"": ("time_unit", _UNIT)}),
    "dt.convert_time_zone": Function("TemporalExpr.ConvertTimeZone", options={"": ("time_zone", _zone)}),
    **{f"dt.total_{unit}": Function(f"TemporalExpr.Total{unit.capitalize()}", options={
        "fractional": ("fractional", _bool)}) for unit in (
        "days", "hours", "minutes", "seconds", "milliseconds", "microseconds", "nanoseconds")},
    "list.get": Function("ListExpr.Get", (2, 2), {"": ("null_on_oob", _bool)}),
    "list.slice": Function("ListExpr.Slice", (3, 3)),
    "list.contains": Function("ListExpr.Contains", (2, 2), {"nulls_equal": ("nulls_equal", _bool)}),
    "list.count_matches": Function("ListExpr.CountMatches", (2, 2)),
    "list.join": Function("ListExpr.Join", (2, 2), {"": ("ignore_nulls", _bool)}, {1: _ANY_TEXT},
                          grows=lambda i, o: 1.0 + len(i[1].encode())),
    "list.sort": Function("ListExpr.Sort", options={
        "descending": ("descending", _bool), "nulls_last": ("nulls_last", _bool), "limit": ("limit", _only(None)),
        "multithreaded": ("multithreaded", _only(True)), "maintain_order": ("maintain_order", _only(False))},
        build=lambda x, *, descending, nulls_last, **_: x.list.sort(descending=descending, nulls_last=nulls_last)),
    "list.shift": Function("ListExpr.Shift", (2, 2), constants={1: _SIZE}),
    "list.std": Function("ListExpr.Std", options={"": ("ddof", _int(0, 255))}),
    "list.var": Function("ListExpr.Var", options={"": ("ddof", _int(0, 255))}),
    "list.to_array": Function("ListExpr.ToArray", options={"": ("width", _int(1, MAX_WIDTH))},
                              grows=lambda i, o: max(1.0, o["width"] / 2)),
    **{f"list.set_{name}": Function("ListExpr.SetOperation." + polars, (2, 2)) for name, polars in (
        ("union", "Union"), ("difference", "Difference"), ("intersection", "Intersection"),
        ("symmetric_difference", "SymmetricDifference"))},
    "arr.get": Function("ArrayExpr.Get", (2, 2), {"": ("null_on_oob", _bool)}),
    "arr.contains": Function("ArrayExpr.Contains", (2, 2), {"nulls_equal": ("nulls_equal", _bool)}),
    "arr.join": Function("ArrayExpr.Join", (2, 2), {"": ("ignore_nulls", _bool)}, {1: _ANY_TEXT},
                         grows=lambda i, o: 1.0 + len(i[1].encode())),
    "struct.field": Function("StructExpr.FieldByName", options={"": ("name", _text(1_000))}),
}  # fmt: skip
BY_PATH = {function.path: name for name, function in FUNCTIONS.items()}

# What Polars writes as a node of its own: by our name, with a function that builds it.
_OPERATORS: dict[str, tuple[str, Callable[[pl.Expr, pl.Expr], pl.Expr]]] = {
    "Plus": ("+", lambda a, b: a + b), "Minus": ("-", lambda a, b: a - b), "Multiply": ("*", lambda a, b: a * b),
    "TrueDivide": ("/", lambda a, b: a / b), "FloorDivide": ("//", lambda a, b: a // b),
    "Modulus": ("%", lambda a, b: a % b), "And": ("&", lambda a, b: a & b), "Or": ("|", lambda a, b: a | b),
    "Xor": ("^", lambda a, b: a ^ b), "Eq": ("==", lambda a, b: a == b), "NotEq": ("!=", lambda a, b: a != b),
    "Lt": ("<", lambda a, b: a < b), "LtEq": ("<=", lambda a, b: a <= b), "Gt": (">", lambda a, b: a > b),
    "GtEq": (">=", lambda a, b: a >= b), "EqValidity": ("eq_missing", lambda a, b: a.eq_missing(b)),
    "NotEqValidity": ("ne_missing", lambda a, b: a.ne_missing(b)),
}  # fmt: skip
BY_OPERATOR = {theirs: ours for theirs, (ours, _) in _OPERATORS.items()}
_AGGREGATES: dict[str, Callable[[pl.Expr], pl.Expr]] = {
    "Sum": lambda x: x.sum(), "Mean": lambda x: x.mean(), "Median": lambda x: x.median(), "First": lambda x: x.first(),
    "Last": lambda x: x.last(), "NUnique": lambda x: x.n_unique(),
}  # fmt: skip
AGGREGATES = frozenset(_AGGREGATES)
_CASTING = _choice(Strict={}, NonStrict={"strict": False}, Overflowing={"wrap_numerical": True})
_FOUND = {"descending": ("descending", _bool), "nulls_last": ("nulls_last", _bool)}
NODES: dict[str, Function] = {
    **{ours: Function("", (2, 2), build=build) for ours, build in _OPERATORS.values()},
    **{f"aggregate.{name}": Function("", build=build) for name, build in _AGGREGATES.items()},
    "alias": Function("", options={"": ("name", _text(65_536))}, build=lambda x, *, name: x.alias(name)),
    "name.keep": Function("", build=lambda x: x.name.keep()),
    "cast": Function("", options={"dtype": ("dtype", dtype), "options": ("mode", _CASTING)},
                     grows=lambda i, o: max(1.0, getattr(o["dtype"], "size", 0) / 2),
                     build=lambda x, *, dtype, mode: x.cast(dtype, **mode)),
    "when": Function("", (3, 3), build=lambda a, b, c: pl.when(a).then(b).otherwise(c)),
    "list.eval": Function("", (2, 2), build=lambda x, y: x.list.eval(y)),
    "list.agg": Function("", (2, 2), build=lambda x, y: x.list.agg(y)),
    "arr.eval": Function("", (2, 2), build=lambda x, y: x.arr.eval(y)),
    "arr.agg": Function("", (2, 2), build=lambda x, y: x.arr.agg(y)),
    "filter": Function("", (2, 2), build=lambda x, by: x.filter(by)),
    "slice": Function("", (3, 3), build=lambda x, offset, length: x.slice(offset, length)),
    "sort": Function("", options=_FOUND,
                     build=lambda x, *, descending, nulls_last: x.sort(descending=descending, nulls_last=nulls_last)),
}  # fmt: skip
TABLE = {**FUNCTIONS, **NODES}
