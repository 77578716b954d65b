"""What limits loading, in words: the same for `rowmill report` and `rowmill bench`, so that the two agree."""

from __future__ import annotations

from rowmill._system.display import plural


def limit_text(bound: str, cores: int) -> str:
    """What limits a run that only loads, by its `RunReport.bound`."""
    return {
        "model": "taking batches from the loader limits it, not reading them",
        "cpu": f"the processor limits it: {plural(cores, 'core')} {'was' if cores == 1 else 'were'} busy",
        "storage": "storage limits it, or other programs that had the cores",
    }[bound]
