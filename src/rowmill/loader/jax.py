"""Batches as JAX arrays, on the default device or over a sharding. Knows JAX and the feed, and no other framework.

`Loader` prefetches two batches to the device, and all its batches have the same shape.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Unpack

try:
    import jax
except ImportError as error:
    raise ImportError("rowmill.loader.jax needs JAX; pip install 'rowmill[jax]'") from error

from rowmill.errors import ArgumentError
from rowmill.feed.run.stream import Shuffle, Table
from rowmill.loader._base.arguments import (
    MASK,
    given_ranks,
    last_batch,
    opened,
)
from rowmill.loader._base.batch_formats import DictBatches
from rowmill.loader._base.batch_iterators import prefetch
from rowmill.loader._base.declared_shapes import declared_shapes
from rowmill.loader._base.dict_loader import DictBatchLoader, Transforms
from rowmill.loader._base.init_arguments import with_options
from rowmill.loader._base.lists import Lists, checked_limits
from rowmill.loader._base.open_stream import open_stream
from rowmill.loader._base.options import SparseDictOptions
from rowmill.loader._jax.tensors import JaxTensors, is_narrow

__all__ = ["Loader"]

PREFETCH = 2  # batches on the device, or on their way, that the training loop has not asked for yet


class Loader(DictBatchLoader):
    """Batches `(features, target)`: a dict of arrays `[N]`, in the order given.

    All batches have `batch_size` rows, so that a compiled step compiles once: the last one is filled up, and a bool
    feature `__mask` says which rows are real (`last="drop"` drops it instead, `last="short"` lets it be short). Columns
    keep their dtypes if `jax_enable_x64` is set; else numbers of 8 bytes come in 4, and an integer that does not fit is
    an error that names its column, never another number. With `sharding` the rows of a batch are spread over devices;
    in a run of several processes each loads its own part (`global_size` and `global_rank` are then JAX's).

    List columns come as `name__values` and `name__offsets`, whose shapes differ from batch to batch; those in `pad`
    come dense. Strings are NumPy arrays. `help(Loader.__init__)` explains the settings.
    """

    @with_options(last=None, sparse_as_dense=True)
    def __init__(
        self,
        dataset: Table,
        batch_size: int = 65_536,
        shuffle: Shuffle = False,
        seed_fn: Callable[[], int] | None = None,
        parts_per_chunk: int = 1,
        global_size: int | None = None,
        global_rank: int | None = None,
        drop_last: bool = False,
        transforms: Transforms | None = None,
        *,
        sharding: Any = None,
        **options: Unpack[SparseDictOptions],
    ) -> None:
        dataset = opened(dataset, options["workflow"])
        if not options["sparse_as_dense"]:
            raise ArgumentError("sparse_as_dense=False, but a batch for JAX is dense; leave it out")
        if sharding is not None:
            _check_shards(sharding, batch_size)
        last, shapes = last_batch(options["last"], drop_last, "pad"), declared_shapes(dataset)
        chosen = DictBatches(shapes, options, narrow=is_narrow(), padded=last == "pad")
        stream = open_stream(
            dataset,
            chosen.selection,
            options,
            batch_size=batch_size,
            shuffle=shuffle,
            seed_fn=seed_fn,
            parts_per_chunk=parts_per_chunk,
            ranks=given_ranks(global_size, global_rank, _processes),
            last=last,
            elastic=options["elastic"],
            column_major=sharding is None,  # which spreads rows, so it wants them whole
        )
        self._open(dataset, stream)
        self.sharding = sharding
        make = JaxTensors(
            chosen.selection.layout.matrices,
            keep_dims=False,
            sharding=sharding,
            mask=MASK if last == "pad" else None,
        )
        limits = checked_limits(shapes, options["pad"], options["sparse_names"], options["sparse_max"], True)
        self._deliver(chosen, make, Lists(limits), transforms)

    def _epoch_batches(self) -> Iterator[Any]:
        return self._stream.track(prefetch(self._batches(self._stream.batches()), PREFETCH))


def _check_shards(sharding: Any, rows: int) -> None:
    processes = 1 if sharding.is_fully_addressable else jax.process_count()
    try:
        sharding.shard_shape((rows * processes,))
    except ValueError as error:
        raise ArgumentError(f"batch_size={rows} cannot be spread: {error}; wanted a multiple of the shards") from error


def _processes() -> tuple[int, int]:
    """The number of processes and this one's, as `jax.distributed` has them."""
    return (jax.process_count(), jax.process_index()) if jax.distributed.is_initialized() else (1, 0)
