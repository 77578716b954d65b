# ruff: noqa: E501
"""An expression for every entry of the table of what saved expressions may call, and a frame to compute them on."""

import datetime as dt

import polars as pl

FRAME = pl.DataFrame(
    {
        "i": [1, -2, None, 2**40],
        "j": [3, 0, 7, None],
        "f": [0.5, float("nan"), None, -1e300],
        "s": ["a,b", "", None, "2020-01-31 ü"],
        "b": [True, False, None, True],
        "l": [[1, 2, 3], [], None, [None, 5]],
        "m": [["x", "y"], [], None, ["z"]],
        "d": [dt.datetime(2020, 2, 29, 12), dt.datetime(1969, 1, 1), None, dt.datetime(2400, 1, 1)],
        "x": pl.Series([[1.0, 2.0]] * 4, dtype=pl.Array(pl.Float64, 2)),
    }
)
i, j, f, s, b, l, m, d, x = (pl.col(name) for name in FRAME.columns)  # noqa: E741
e = pl.element()

EXPRESSIONS = [
    i.abs(), f.exp(), f.log1p(), f.sign(), f.floor(), f.ceil(), -i, f.erf(), f.erfc(), i.sqrt(), f.cbrt(), f.sin(), f.cos(),
    f.tan(), f.cot(), f.arcsin(), f.arccos(), f.arctan(), f.sinh(), f.cosh(), f.tanh(), f.arcsinh(), f.arccosh(),
    f.arctanh(), f.degrees(), f.radians(), i.is_null(), i.is_not_null(), f.is_nan(), f.is_not_nan(), f.is_finite(),
    f.is_infinite(), ~b, i.is_unique(), i.is_duplicated(), i.is_first_distinct(), i.is_last_distinct(),
    i.bitwise_count_ones(), i.bitwise_count_zeros(), i.bitwise_leading_ones(), i.bitwise_leading_zeros(),
    i.bitwise_trailing_ones(), i.bitwise_trailing_zeros(), s.str.to_lowercase(), s.str.to_uppercase(),
    s.str.to_titlecase(), s.str.len_chars(), s.str.len_bytes(), s.str.reverse(), s.str.escape_regex(), i.reverse(),
    d.to_physical(), d.dt.year(), d.dt.iso_year(), d.dt.quarter(), d.dt.month(), d.dt.week(), d.dt.weekday(), d.dt.day(),
    d.dt.ordinal_day(), d.dt.hour(), d.dt.minute(), d.dt.second(), d.dt.millisecond(), d.dt.microsecond(),
    d.dt.nanosecond(), d.dt.century(), d.dt.millennium(), d.dt.is_leap_year(), d.dt.days_in_month(), d.dt.month_start(),
    d.dt.month_end(), d.dt.date(), d.dt.time(), d.dt.replace_time_zone("UTC").dt.base_utc_offset(),
    d.dt.replace_time_zone("UTC").dt.dst_offset(), l.list.len(), l.list.sum(), l.list.mean(), l.list.min(), l.list.max(),
    l.list.median(), l.list.arg_min(), l.list.arg_max(), l.list.drop_nulls(), x.arr.len(), x.arr.sum(), x.arr.mean(),
    x.arr.min(), x.arr.max(), x.arr.median(), x.arr.arg_min(), x.arr.arg_max(), x.arr.to_list(),
    s.cast(pl.Categorical).to_physical(), i**2, i.log(3), pl.arctan2(i, j),
    f.round(2), f.round(1, mode="half_away_from_zero"), f.round_sig_figs(3), f.truncate(1), i.clip(0, 5),
    i.clip(upper_bound=5), i.fill_null(0), i.fill_null(strategy="forward", limit=2), i.fill_null(strategy="zero"),
    s.hash(7), i.shift(1), i.diff(), i.cum_sum(), i.cum_min(), i.cum_max(), i.cum_count(), i.cum_prod(reverse=True),
    i.is_between(0, 5, closed="none"), i.is_in([1, 2, None]), s.is_in(["a", "b"]), f.is_in([0.5, float("nan")]),
    d.is_in([dt.datetime(2020, 1, 1)]), i.is_in(pl.Series([1, 2])), i.repeat_by(3), i.replace({1: 2, 3: 4}),
    i.replace_strict({1: 2}, default=0), i.replace_strict([1, -2, 2**40, None], [1, 2, 3, 4]), pl.coalesce(i, j),
    pl.struct(i, j).struct.field("i"), pl.max_horizontal(i, j), pl.min_horizontal(i, j), pl.any_horizontal(b, b),
    pl.all_horizontal(b, b), pl.sum_horizontal(i, j), pl.mean_horizontal(i, j), pl.concat_list(i, j),
    pl.concat_str(s, i, separator="-"), pl.format("é{}-{}!", s, i), s.str.contains("a|b"), s.str.contains("a", literal=True),
    s.str.find("b"), s.str.count_matches("a"), s.str.extract(r"(\d+)", 1), s.str.extract_all(r"\d"), s.str.replace("a", "c"),
    s.str.replace_all("a", "c", literal=True), s.str.starts_with("a"), s.str.ends_with("b"), s.str.strip_chars(),
    s.str.strip_chars_start("a"), s.str.strip_chars_end("b"), s.str.strip_prefix("a"), s.str.strip_suffix("b"),
    s.str.slice(1, 2), s.str.head(2), s.str.tail(2), s.str.split(","), s.str.splitn(",", 2).struct.field("field_0"),
    s.str.split_exact(",", 2).struct.field("field_1"), s.str.pad_start(8, "*"), s.str.pad_end(8), s.str.zfill(6),
    s.str.to_integer(strict=False), s.str.to_datetime("%Y-%m-%d", strict=False), s.str.to_date("%Y", strict=False),
    s.str.to_time("%H", strict=False), d.dt.strftime("%Y-%m"), d.dt.truncate("1d"), d.dt.round("1h"),
    d.dt.offset_by("-1mo"), d.dt.timestamp("ms"), d.dt.cast_time_unit("ms"), d.dt.replace_time_zone("Europe/Berlin",
    ambiguous="earliest", non_existent="null").dt.convert_time_zone("America/New_York"), (d - d).dt.total_days(),
    (d - d).dt.total_hours(), (d - d).dt.total_minutes(), (d - d).dt.total_seconds(fractional=True),
    (d - d).dt.total_milliseconds(), (d - d).dt.total_microseconds(), (d - d).dt.total_nanoseconds(),
    pl.datetime(2020, 1, j % 7 + 1, time_unit="ms"), pl.date(2020, 1, 2) - d, d + pl.duration(days=j), l.list.get(0, null_on_oob=True),
    l.list.slice(1, 2), l.list.head(2), l.list.contains(3), l.list.count_matches(3), m.list.join("-"), l.list.shift(1),
    l.list.std(), l.list.var(0), l.list.sort(descending=True), l.list.eval(pl.element().head(0)),
    l.list.set_union(l), l.list.set_difference(l), l.list.set_intersection(l), l.list.set_symmetric_difference(l),
    l.list.eval(e * 2), l.list.n_unique(), l.list.any(), l.list.all(), l.list.unique(), l.list.filter(e > 1),
    l.list.agg(e.sum()), l.list.agg(e.mean()), l.list.agg(e.median()), l.list.agg(e.first()), l.list.agg(e.last()),
    l.list.eval(e.sort(descending=True)), l.list.eval(e.slice(0, 1)), l.list.eval(e.drop_nulls()),
    x.arr.get(0), x.arr.contains(1.0), x.arr.eval(e + 1), x.arr.agg(e.sum()),
    x.arr.eval(e.cast(pl.String)).arr.join("-"), x.arr.to_list().list.eval(e.drop_nans()), x.arr.to_list().list.to_array(2),
    i + 1, i - 1, i * 2, i / 2, i // 2, i % 2, b & b, b | b, b ^ b, i == 1, i != 1, i < 1, i <= 1, i > 1, i >= 1,
    i.eq_missing(None), i.ne_missing(None), i.alias("other"), i.alias("other").name.keep(), i.cast(pl.Int8, strict=False),
    i.cast(pl.Int8, wrap_numerical=True), i.cast(pl.Decimal(38, 2)), d.cast(pl.Date), l.cast(pl.List(pl.Int32)),
    pl.when(i > 0).then(i).when(i < 0).then(-i).otherwise(float("inf")), pl.lit(dt.date(2020, 1, 1)) - d.dt.date(),
    pl.lit(dt.timedelta(seconds=1)) + d, pl.lit(5, dtype=pl.UInt8) + i, pl.lit(1.5, dtype=pl.Float32) + f,
    i + pl.lit(None), pl.lit(b"ab") == s.cast(pl.Binary), d.dt.time() > pl.lit(dt.time(1)), pl.lit([1, 2]).list.len() + i,
]  # fmt: skip
