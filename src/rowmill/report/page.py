"""One page that needs nothing else: a report in, HTML out. Style, script and pictures are in the page.

Everything that comes from data (names, values, paths) is escaped, and the page's own policy forbids every request.
"""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING

from rowmill._system.display import plural
from rowmill.feed.report.text_table import TextTable, bytes_text
from rowmill.report import pictures, svg
from rowmill.report.facts import Advice, ColumnFacts, TableFacts

if TYPE_CHECKING:
    from rowmill.report.report import Report

POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
HEADINGS = (  # and whether they stand over numbers
    ("column", False), ("distribution", False), ("type", False), ("nulls", True), ("distinct", True),
    ("commonest", False), ("share", True), ("min", True), ("mean", True), ("max", True), ("skewness", True),
    ("tags", False),
)  # fmt: skip


def build(report: Report) -> str:
    """The whole page."""
    headline, *more = report.verdict
    table = report.table
    where = table.version or table.path or "in memory"
    text = [
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>Rowmill report: '
        f"{escape(table.path or 'a table')}</title>\n"
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="color-scheme" content="light dark">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f"<style>\n{_asset('page.css')}</style>\n</head>\n<body>\n<main>\n"
        f'<h1>Rowmill report</h1>\n<p class="path">{escape(where)} · {escape(report.made)}</p>',
        f'<section class="card verdict" id="verdict"><strong>{escape(headline)}</strong>'
        + "".join(f"<p>{escape(line)}</p>" for line in more)
        + "</section>",
        _tiles(report),
        _advice(table.advice),
        f'<section id="dataset"><h2>Dataset</h2>{_grid(pictures.of_table(table))}',
        f"{_columns(table)}{_sampled(table)}</section>",
    ]
    if table.rows:
        text.append(f'<section id="plan"><h2>Plan</h2>{_grid(pictures.of_plan(table, report.plan))}')
        text.append(_facts(report.plan) + "</section>")
    if report.run is not None and report.run.batches:
        text.append(f'<section id="run"><h2>Run</h2>{_grid(pictures.of_run(report.run))}{_facts(report.run)}</section>')
    text.append(
        "<footer>Decoded sizes are those in memory. Rows per second are those of this machine in this run; another "
        f"machine, or a busy one, gives others.</footer>\n</main>\n<script>\n{_asset('page.js')}</script>\n"
        "</body>\n</html>\n"
    )
    return "\n".join(text)


def _asset(name: str) -> str:
    return (files("rowmill.report") / name).read_text("utf-8")


def _tiles(report: Report) -> str:
    table, run = report.table, report.run
    shown = [
        _tile(table.rows, "row"),
        _tile(len(table.columns), "column"),
        _tile(table.files, "file", "" if table.file_bytes is None else f", {bytes_text(table.file_bytes)}"),
        _tile(len(table.fragment_rows), "row group"),
        (bytes_text(table.rows * table.row_bytes), "decoded"),
    ]
    if run is not None and run.batches:
        shown.append((pictures.count(run.rows_per_second), "rows per second"))
    tiles = "".join(f'<div class="card tile"><b>{escape(a)}</b><span>{escape(b)}</span></div>' for a, b in shown)
    return f'<div class="tiles">{tiles}</div>'


def _tile(number: int, noun: str, more: str = "") -> tuple[str, str]:
    figure, _, what = plural(number, noun).partition(" ")
    return figure, what + more


def _advice(advice: Iterable[Advice]) -> str:
    items = "".join(f"<li><b>{escape(_sentence(a.found))}</b>{escape(_sentence(a.do))}</li>" for a in advice)
    return f'<ul class="advice">{items}</ul>' if items else ""


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


def _grid(drawn: Iterable[pictures.Picture]) -> str:
    cards = [
        f'<figure class="card"><h3>{escape(p.title)}</h3>{svg.draw(p)}'
        + (f'<p class="note">{escape(p.note)}</p>' if p.note else "")
        + "</figure>"
        for p in drawn
    ]
    return f'<div class="grid">{"".join(cards)}</div>' if cards else ""


def _columns(table: TableFacts) -> str:
    heads = "".join(
        f'<th scope="col"{" class=number" if number else ""}><button type="button">{name}</button></th>'
        for name, number in HEADINGS
    )
    rows = "".join(_row(column) for column in table.columns)
    return (
        f'<div class="card scroll" tabindex="0" role="region" aria-label="Columns"><table class="sortable columns">'
        f"<thead><tr>{heads}</tr></thead><tbody>{rows}</tbody></table></div>"
    )


def _row(column: ColumnFacts) -> str:
    picture = pictures.of_column(column)
    dtype = f"list of {column.dtype}" if column.is_list else column.dtype
    if column.length is not None:
        dtype += f", {column.length:.3g} a row"
    spark = "" if picture is None else svg.spark(picture.values, f"distribution of {column.name}")
    name = escape(column.name, quote=True)
    return (
        f'<tr><th scope="row" title="{name}">{name}</th>'
        f'<td data-value="{escape(column.kind)}">{spark}</td><td>{escape(dtype)}</td>'
        + _number(column.nulls, f"{column.nulls:.1%}" if column.nulls else "0")
        + _number(column.distinct, f"{column.distinct:,}")
        + f'<td class="value" title="{escape(column.top_value, quote=True)}">{escape(column.top_value)}</td>'
        + _number(column.top_share, f"{column.top_share:.1%}")
        + _number(_figure(column.minimum), column.minimum)
        + _number(column.mean, "" if column.mean is None else f"{column.mean:.4g}")
        + _number(_figure(column.maximum), column.maximum)
        + _number(column.skewness, "" if column.skewness is None else f"{column.skewness:.2f}")
        + f"<td>{escape(', '.join(column.tags))}</td></tr>"
    )


def _number(value: float | None, text: str) -> str:
    title = f' title="{escape(text, quote=True)}"' if len(text) > 12 else ""  # it may be cut
    return f'<td class="number" data-value="{"" if value is None else repr(value)}"{title}>{escape(text)}</td>'


def _figure(text: str) -> float | None:
    """The number that a text is, if it is one."""
    try:
        found = float(text)
    except ValueError:
        return None
    return found if found == found and abs(found) != float("inf") else None


def _sampled(table: TableFacts) -> str:
    if table.exact:
        return ""
    return (
        f'<p class="note">Nulls, distinct values, shares and distributions are those of {table.sampled_rows:,} rows '
        f"from all over the table; the whole may have more distinct values.</p>"
    )


def _facts(shown: TextTable | None) -> str:
    if shown is None:
        return ""
    facts = [(a, b) for a, b in shown.table()[1] if a != "verdict"]  # which stands at the top of the page
    rows = "".join(f"<tr><th scope=row>{escape(a)}</th><td>{escape(b)}</td></tr>" for a, b in facts)
    return f'<div class="card scroll"><table class="facts"><tbody>{rows}</tbody></table></div>'
