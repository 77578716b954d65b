"""What could be better about a table that is to be streamed: its facts in, advice out, the weightiest first."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence

from rowmill._system.display import plural
from rowmill.report.facts import Advice, ColumnFacts, TableFacts
from rowmill.schema import Tags
from rowmill.sources.null_texts import as_option

LARGE_BYTES = 83_000_000  # decoded; with memory="1GB" a larger row group is read in slices, for 40% more work
SMALL_BYTES = 1_000_000  # decoded; a smaller row group costs more to open than to decode
GOOD_BYTES = 32_000_000  # decoded; small enough to shuffle well, large enough to be read at full speed
INT32_IDS = 2**31


def advise(facts: TableFacts, file_rows: Sequence[int]) -> Iterator[Advice]:
    """Advice on files and row groups, then on columns."""
    if not facts.rows:
        yield Advice("the table has no rows", "check the path, or what wrote it")
        return
    yield from _on_groups(facts, file_rows)
    yield from on_null_texts(facts.columns, _place(facts), facts.engine)
    yield from _on_columns(facts.columns, _place(facts))


def good_rows(row_bytes: float) -> int:
    """Rows of a row group that suits streaming, as a round number."""
    rows = max(1, int(GOOD_BYTES / max(1.0, row_bytes)))
    unit = int(10 ** max(0, len(str(rows)) - 2))
    return rows // unit * unit


def _on_groups(facts: TableFacts, file_rows: Sequence[int]) -> Iterator[Advice]:
    groups, total = facts.fragment_rows, facts.rows * facts.row_bytes
    rewrite = f"rowmill convert {_place(facts)} OUT --row-group-size {good_rows(facts.row_bytes)}"
    large = sum(rows * facts.row_bytes > LARGE_BYTES for rows in groups)
    small = sum(rows * facts.row_bytes < SMALL_BYTES for rows in groups)
    if large:
        yield Advice(
            f"{large:,} of {plural(len(groups), 'row group')} {'is' if large == 1 else 'are'} too large: more than "
            f"{LARGE_BYTES / 1e6:.0f} MB decoded, and so read in slices, which costs more",
            f"write smaller ones: {rewrite}; or give loaders more memory=",
        )
    if small > 1 and total > SMALL_BYTES:
        files = max(1, round(total / (8 * GOOD_BYTES)))
        small_files = sum(rows * facts.row_bytes < SMALL_BYTES for rows in file_rows)
        what = (
            f"{small_files:,} of {facts.files:,} files" if small_files > 1 else f"{small:,} of {len(groups):,} groups"
        )
        yield Advice(
            f"{what} are too small: less than {SMALL_BYTES / 1e6:.0f} MB decoded, so opening costs more than reading",
            f"write fewer, larger ones: {rewrite} --files {files}",
        )
    if len(groups) == 1 and total > GOOD_BYTES:
        yield Advice("all rows are in one row group, which threads cannot share", f"write several: {rewrite}")


def _place(facts: TableFacts) -> str:
    """The path of the table as a shell takes it."""
    return shlex.quote(facts.path) if facts.path else "IN"


def _on_columns(columns: Sequence[ColumnFacts], place: str) -> Iterator[Advice]:
    texts = [c for c in columns if c.dtype == "string" and not c.numeric_text]
    targets = [c.name for c in texts if Tags.TARGET in c.tags]
    if targets:
        yield Advice(
            f"text, which no tensor holds, in {_named(targets)} tagged as target",
            "turn targets into numbers before training, with LambdaOp in a workflow",
        )
    strings = [c.name for c in texts if Tags.TARGET not in c.tags]
    if strings:
        yield Advice(
            f"text, which no tensor holds, in {_named(strings)}",
            _to_ids(strings, place),
        )
    nulls = [c.name for c in columns if c.nulls > 0]
    if nulls:
        yield Advice(
            f"nulls, which loaders refuse unless told what to put there, in {_named(nulls)}",
            "fill them in a workflow (FillMissing, Categorify), or pass nulls=0 or nulls='mask' to the loader",
        )
    constant = [c.name for c in columns if c.distinct == 1 and not c.nulls]
    if constant:
        yield Advice(f"one value only, as far as seen, in {_named(constant)}", "leave it out with columns=")
    wide = [c.name for c in columns if c.dtype == "int64" and Tags.CATEGORICAL in c.tags and _fits(c)]
    if wide:
        yield Advice(
            f"ids of 8 bytes that would fit in 4, as far as seen, in {_named(wide)}",
            "halve their bytes: index_dtype='int32' in TorchAsyncItr, or the operator ReduceDtypeSize",
        )


def on_null_texts(columns: Sequence[ColumnFacts], place: str, engine: str | None) -> Iterator[Advice]:
    """Advice on text columns with values that look like nulls: "NA", "null", "?"."""
    numbers = [c for c in columns if c.null_texts and c.numeric_text]
    if numbers:
        yield Advice(
            f"text that looks like null ({_quoted(numbers)}) beside numbers, which are text because of it, in "
            f"{_named([c.name for c in numbers])}",
            _as_nulls(numbers, place, engine),
        )
    words = [c for c in columns if c.null_texts and not c.numeric_text]
    if words:
        yield Advice(
            f"text that looks like null ({_quoted(words)}) beside other text in {_named([c.name for c in words])}",
            _as_nulls(words, place, engine),
        )


def _quoted(columns: Sequence[ColumnFacts]) -> str:
    return ", ".join(repr(text) for text in _null_texts(columns)[:4])


def _null_texts(columns: Sequence[ColumnFacts]) -> list[str]:
    return sorted({text for column in columns for text in column.null_texts})


def _as_nulls(columns: Sequence[ColumnFacts], place: str, engine: str | None) -> str:
    texts = _null_texts(columns)
    option = as_option(texts)
    command = f": rowmill convert {place if engine == 'csv' else 'CSV'} OUT {option}" if option else ""
    how = "read it with" if engine == "csv" else "write the table again from CSV files read with"
    return f"if it means null in all columns, {how} null_values={texts!r}{command}"


def _to_ids(names: Sequence[str], place: str) -> str:
    """A command that turns these columns into ids; the command line cannot name those with commas or outer spaces."""
    if any("," in name or name != name.strip() for name in names):
        return "turn text into ids first, with Categorify in a workflow"
    command = f"rowmill fit {place} --cats {shlex.quote(','.join(names))} -o OUT"
    return f"turn text into ids first: {command}; name what else is to stay with --conts and --labels"


def _fits(column: ColumnFacts) -> bool:
    try:
        return abs(int(column.minimum)) < INT32_IDS and abs(int(column.maximum)) < INT32_IDS
    except ValueError:
        return False


def _named(names: Sequence[str]) -> str:
    shown = ", ".join(names[:4])
    return f"{plural(len(names), 'column')} ({shown}{', ...' if len(names) > 4 else ''})"
