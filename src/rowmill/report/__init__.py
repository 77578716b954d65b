"""A table, its plan and a run as figures, pictures and one self-contained page.

`facts` and `table` measure, `advice` judges, `pictures` chooses what to draw, `svg` and `png` draw, `page` writes HTML.
Called by `loader.report()` and the commands `inspect` and `report`.
"""

from rowmill._system.display import plural
from rowmill.report.facts import Advice, ColumnFacts, TableFacts
from rowmill.report.loading import load_for, open_loader
from rowmill.report.report import Report, of_dataset, of_loader
from rowmill.report.table import measure_table

__all__ = [
    "Advice",
    "ColumnFacts",
    "Report",
    "TableFacts",
    "load_for",
    "measure_table",
    "of_dataset",
    "of_loader",
    "open_loader",
    "plural",
]
