"""What `KerasSequenceValidater` does: a model and a loader come in, the logs with the validation's results go out."""

from __future__ import annotations

from typing import Any


def validated(model: Any, loader: Any, logs: dict[str, Any] | None) -> dict[str, Any]:
    """Evaluate with fresh metrics, exactly as `fit(validation_data=loader)` does, and add the results to the logs."""
    logs = {} if logs is None else logs
    found = model.evaluate(loader, return_dict=True, verbose=0)
    logs.update({f"val_{name}": value for name, value in found.items()})
    return logs
