"""Runs one node over a table."""

import polars as pl

from rowmill import Workflow


def run(node, data, **options):
    frame = pl.DataFrame(data) if not isinstance(data, pl.DataFrame) else data
    return Workflow(node).fit(frame).transform(frame, **options)
