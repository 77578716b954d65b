"""Hugging Face Accelerate: whether it would divide among ranks what the loader has divided already.

`accelerator.prepare` wraps a stock `DataLoader` over an iterable dataset so that rank 0 alone is read, and its batches
are concatenated and sliced for all ranks. Called by `torch_loader` when an iteration begins; imports no Accelerate.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rowmill.errors import ArgumentError

_DIVIDES = ("DataLoaderDispatcher.__iter__", "IterableDatasetShard.__iter__")
_SKIPS = ("SkipDataLoader.__iter__",)
_FRAMES = 32  # between a loader's `__iter__` and Accelerate's are six, and more where worker processes are started


def refuse_second_division(size: int, lists: Sequence[str]) -> None:
    """Raise if Accelerate iterates over this loader in order to divide its batches.

    A single rank without list columns gets its batches as they are. Values and offsets of a list column are of other
    lengths than the batch, so slicing a batch cuts them off.
    """
    if not (size > 1 or lists) or not _is_called_by(_DIVIDES):
        return
    what = f"this loader has given each of the {size} ranks its own rows" if size > 1 else f"it would cut {lists[0]!r}"
    raise ArgumentError(
        f"accelerator.prepare() was given a stock DataLoader, whose batches Accelerate divides among the ranks, but "
        f"{what}; pass the Rowmill loader itself to accelerator.prepare(), or rowmill.loader.torch.DLDataLoader(loader)"
    )


def refuse_skipping() -> None:
    """Raise if Accelerate iterates over this loader in order to pass over the batches before a checkpoint: it does not
    say in which epoch, so they would be those of the first one."""
    if _is_called_by(_SKIPS):
        raise ArgumentError(SKIPPING)


SKIPPING = (
    "Accelerate cannot pass over the batches before a checkpoint, as it does not tell the loader the epoch; set "
    "ignore_data_skip=True (the Trainer), save loader.state_dict() with the checkpoint, and call "
    "loader.load_state_dict()"
)


def _is_called_by(names: Sequence[str]) -> bool:
    if "accelerate.data_loader" not in sys.modules:
        return False
    frame = sys._getframe(2)
    for _ in range(_FRAMES):
        if frame.f_globals.get("__name__") == "accelerate.data_loader" and frame.f_code.co_qualname in names:
            return True
        if frame.f_back is None:
            return False
        frame = frame.f_back
    return False
