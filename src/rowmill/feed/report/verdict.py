"""The verdict on a run in words: whether the model or the loading of data limits it, and what to try.

Called by `run_stats` for a training run, and by the report and `rowmill bench` for a run that only loads.
"""

from __future__ import annotations

from rowmill._system.display import plural

SHORT = 1.0  # seconds in which starting up weighs more than loading


def verdict_text(bound: str, waited: float, seconds: float) -> str:
    """What limits a training run, by its `RunReport.bound`, and what to try."""
    share = f"the training loop waited for data {waited / seconds:.0%} of the time"
    if seconds < SHORT:
        share += f" (of {seconds:.2f} s: too short to be sure)"
    if bound == "unknown":
        return "nothing has been delivered yet"
    if bound == "model":
        return f"model-bound: {share}; a faster loader would change little"
    if bound == "cpu":
        return (
            f"data-bound, by the processor: {share} while the cores were busy; "
            f"read fewer columns, use smaller dtypes (ids as int32), or give it more cores"
        )
    return (
        f"data-bound, by storage: {share} while the cores were idle; "
        f"use more threads= and memory=, larger row groups, or a faster disk"
    )


def limit_text(bound: str, cores: int) -> str:
    """What limits a run that only loads, by its `RunReport.bound`."""
    return {
        "model": "taking batches from the loader limits it, not reading them",
        "cpu": f"the processor limits it: {plural(cores, 'core')} {'was' if cores == 1 else 'were'} busy",
        "storage": "storage limits it, or other programs that had the cores",
    }[bound]
