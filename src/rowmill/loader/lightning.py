"""Tables for a Lightning `Trainer`: `DataModule`, whose position in an epoch is part of every checkpoint.

Comes in: datasets and the settings of a PyTorch loader. Goes out: a loader for each stage, with ranks and device as the
trainer has them. Called by the trainer.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

try:
    from lightning.pytorch import LightningDataModule
except ImportError as error:
    raise ImportError("rowmill.loader.lightning needs Lightning; pip install 'rowmill[lightning]'") from error

from rowmill.errors import ArgumentError
from rowmill.feed.run.stream import Shuffle, Table
from rowmill.loader._torch.torch_loader import TorchStream
from rowmill.loader.torch import Loader

__all__ = ["DataModule", "Epochs"]

_TRAINERS = ("global_size", "global_rank", "device")
_TRAINING_ONLY = ("seed", "seed_fn", "drop_last", "last", "elastic", "weights", "balance")


class Epochs:
    """A loader as a trainer wants it: an epoch begins with its first batch, and a position outlives the trainer.

    Lightning asks for an iterator more often than it uses one, and leaves an epoch after its last batch without asking
    whether there is another. So nothing starts before a batch is asked for, and a position at the end of an epoch is
    the beginning of the next. Rank 0 writes the checkpoint: its position is every rank's, as all take equal steps.
    """

    def __init__(self, loader: TorchStream, steps: Callable[[], float]) -> None:
        self.loader = loader
        self._steps = steps  # of an epoch of the trainer's, which may be shorter than the table

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        yield from self.loader

    def state_dict(self) -> dict[str, Any]:
        state = self.loader.state_dict()
        if state["batch"] >= min(len(self.loader), self._steps()):
            state.update(epoch=state["epoch"] + 1, batch=0)
        return state

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        self.loader.load_state_dict(state_dict)


class DataModule(LightningDataModule):
    """Loaders for `Trainer.fit(model, datamodule=...)`, `validate`, `test` and `predict`.

    `loader`: which loader of `rowmill.loader.torch` makes the batches, `Loader` or `TorchAsyncItr`. `settings`: its
    settings. Those of order and sampling (`seed`, `drop_last`, `weights`, ...) are for training only; other stages see
    every row in the order of the table. Ranks and device are the trainer's. A run that goes on from a checkpoint goes
    on with the batch after it; give `elastic=` to go on with another number of ranks.
    """

    def __init__(
        self,
        train: Table | None = None,
        valid: Table | None = None,
        *,
        test: Table | None = None,
        predict: Table | None = None,
        loader: Callable[..., TorchStream] = Loader,
        batch_size: int = 65_536,
        shuffle: Shuffle = True,
        **settings: Any,
    ) -> None:
        super().__init__()
        tables = {"train": train, "valid": valid, "test": test, "predict": predict}
        self.tables = {stage: table for stage, table in tables.items() if table is not None}
        self.loader, self.batch_size, self.shuffle, self.settings = loader, batch_size, shuffle, settings
        self._training: Epochs | None = None
        self._position: Mapping[str, Any] | None = None  # of a checkpoint, until the training loader is made
        self._check()
        if "valid" not in self.tables:  # it is then as if there were no such method, and Lightning says nothing
            self.val_dataloader = super().val_dataloader  # type: ignore[method-assign]

    def _check(self) -> None:
        """Refuse now what the loader would refuse when training starts."""
        if not self.tables:
            raise ArgumentError("a DataModule without a table; wanted at least one; pass train=, valid=, test= ...")
        for name in _TRAINERS:
            if name in self.settings:
                raise ArgumentError(f"{name}= was given to a DataModule; the trainer decides it; leave it out")
        for stage, table in self.tables.items():
            if not hasattr(table, "source"):
                found = type(table).__name__
                raise ArgumentError(f"{stage} is {found}; wanted a rowmill.Dataset; open it with Dataset(...)")
        signature = inspect.signature(self.loader)
        try:
            signature.bind(None, batch_size=1, **self.settings)
        except TypeError as error:
            name = getattr(self.loader, "__name__", str(self.loader))
            known = ", ".join(list(signature.parameters)[1:])
            raise ArgumentError(f"settings of {name}: {error}; wanted some of {known}; see help({name})") from error

    def __str__(self) -> str:
        rows = {stage: f"{sum(f.rows for f in table.source.fragments):,} rows" for stage, table in self.tables.items()}
        return f"DataModule({', '.join(f'{stage}: {text}' for stage, text in rows.items())})"

    __repr__ = __str__

    def train_dataloader(self) -> Epochs:
        training = Epochs(self._made("train", shuffle=self.shuffle, **self.settings), self._steps)
        if self.trainer is not None:  # which may ask for a new loader before any epoch
            training.loader.set_epoch(self.trainer.current_epoch)
        position, self._position = self._position, None
        if position is not None:
            training.load_state_dict(position)
        self._training = training
        return training

    def state_dict(self) -> dict[str, Any]:
        """For a checkpoint. Lightning keeps the states of loaders too, but restores them in mid-epoch only."""
        return {} if self._training is None else {"train": self._training.state_dict()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        fitting = self.trainer is None or self.trainer.state.fn == "fit"
        self._position = state_dict.get("train") if fitting else None

    def val_dataloader(self) -> TorchStream:
        return self._ordered("valid")

    def test_dataloader(self) -> TorchStream:
        return self._ordered("test")

    def predict_dataloader(self) -> TorchStream:
        return self._ordered("predict")

    def _ordered(self, stage: str) -> TorchStream:
        return self._made(stage, **{k: value for k, value in self.settings.items() if k not in _TRAINING_ONLY})

    def _made(self, stage: str, **settings: Any) -> TorchStream:
        if stage not in self.tables:
            raise ArgumentError(f"this DataModule has no table for {stage!r}; wanted one; pass {stage}=")
        if self.trainer is not None:
            settings["global_size"], settings["global_rank"] = self.trainer.world_size, self.trainer.global_rank
            settings["device"] = self.trainer.strategy.root_device
        return self.loader(self.tables[stage], batch_size=self.batch_size, **settings)

    def _steps(self) -> float:
        return float("inf") if self.trainer is None else float(self.trainer.num_training_batches)
