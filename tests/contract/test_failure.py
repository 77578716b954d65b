"""Promise 2: what fails in a reading thread is raised in the training loop, after the complete batches before it."""

import time

import pytest
import torch

import rowmill
from rowmill.errors import DataFileError, ForkedError, NullError
from rowmill.loader.torch import TorchAsyncItr
from tests.conftest import make_table, write_files


def itr(folder, **settings):
    settings = {"batch_size": 64, "memory": "60KB", **settings}
    return TorchAsyncItr(rowmill.Dataset(folder), ["id"], ["x1"], ["label"], **settings)


def break_reading(loader, error, when):
    """Let reading raise `error` for the fragments of which `when(number)` is true."""
    source, fragments = loader._stream.source, loader._stream.fragments
    read, numbers = source.read, {(f.unit, f.start // 100): i for i, f in enumerate(fragments)}

    def broken(fragment, columns):
        if when(numbers[fragment.unit, fragment.start // 100]):
            raise error
        return read(fragment, columns)

    source.read = broken


ERRORS = [ValueError, OSError, MemoryError, SystemExit, KeyboardInterrupt, GeneratorExit, RuntimeError, BaseException]


@pytest.mark.parametrize("kind", ERRORS)
@pytest.mark.parametrize("position", [0, 5, 11])
def test_the_original_error_with_file_and_row_group(folder, kind, position):
    loader = itr(folder)
    assert len(loader._stream.fragments) == 12
    error = kind("deliberate")
    break_reading(loader, error, lambda number: number == position)
    ids = []
    started = time.perf_counter()
    with pytest.raises(kind) as raised:
        for x_cat, _, _ in loader:
            ids += x_cat.flatten().tolist()
    assert time.perf_counter() - started < 5
    assert raised.value is error
    note = "\n".join(error.__notes__)
    assert f"part_{position // 4}.parquet" in note and f"row group {position % 4}" in note
    failed_at = sum(fragment.rows for fragment in loader._stream.fragments[:position])
    assert ids == list(range(failed_at // 64 * 64)), "complete batches before the failure, and nothing else"


def test_the_original_error_where_the_last_batch_would_be_padded(folder):
    loader, error = itr(folder, batch_size=5000, last="pad", memory="4MB"), ValueError("deliberate")
    break_reading(loader, error, lambda number: True)
    with pytest.raises(ValueError, match="deliberate"):
        list(loader)


def test_stop_iteration_is_an_error_and_not_the_end(folder):
    loader = itr(folder)
    break_reading(loader, StopIteration("deliberate"), lambda number: number == 3)
    with pytest.raises(RuntimeError, match="StopIteration"):
        list(loader)


@pytest.mark.parametrize("threads", [1, 4])
def test_shuffled_chunks_before_the_failure_are_delivered_whole(tmp_path, threads):
    write_files(tmp_path, make_table(20_000), files=1, row_group=100)
    loader = itr(tmp_path, shuffle=True, threads=threads, memory="200KB")
    chunks = list(loader._stream.plan().chunks(0))
    assert len(chunks) > 3
    poisoned = chunks[2].spans[-1].fragment
    fragments = loader._stream.fragments
    read = loader._stream.source.read

    def broken(fragment, columns):
        if fragments[poisoned].start <= fragment.start < fragments[poisoned].stop:
            raise OSError("deliberate")
        return read(fragment, columns)

    loader._stream.source.read = broken
    count = 0
    with pytest.raises(OSError, match="deliberate"):
        for _ in loader:
            count += 1
    # the fragment may also hold the first rows of chunk 1's neighbour; what is before its first chunk must all be there
    first = min(number for number, chunk in enumerate(chunks) if any(s.fragment == poisoned for s in chunk.spans))
    assert count == chunks[first].first_batch


def test_many_failures_at_once_give_the_first_in_order(folder):
    for _ in range(20):
        loader = itr(folder, threads=4)
        read = loader._stream.source.read
        order = loader._stream.fragments

        def broken(fragment, columns, order=order, read=read):
            if fragment.unit == 0:
                return read(fragment, columns)
            raise ValueError(f"unit {fragment.unit} row {fragment.start}")

        loader._stream.source.read = broken
        with pytest.raises(ValueError, match="unit 1 row 0"):
            list(loader)


def test_a_file_that_is_cut_short_or_gone_after_opening(folder):
    loader = itr(folder)
    victim = folder / "part_1.parquet"
    victim.write_bytes(victim.read_bytes()[:100])
    with pytest.raises(DataFileError, match="part_1"):
        list(loader)
    loader = itr([folder / "part_0.parquet", folder / "part_2.parquet"])
    (folder / "part_2.parquet").unlink()
    with pytest.raises(DataFileError, match="part_2"):
        list(loader)


def test_a_loader_that_failed_works_again(folder):
    loader = itr(folder, shuffle=True)
    read = loader._stream.source.read
    break_reading(loader, OSError("once"), lambda number: number == 2)
    with pytest.raises(OSError, match="once"):
        list(loader)
    loader._stream.source.read = read
    assert sorted(torch.cat([batch[0].flatten() for batch in loader]).tolist()) == list(range(1003))


def test_nulls_name_column_and_place(tmp_path):
    frame = make_table(300).with_columns(x1=rowmill_null_at(250))
    write_files(tmp_path, frame, files=1)
    with pytest.raises(NullError, match=r"'x1' has 1 nulls in .*part_0.parquet, row group 2.*nulls="):
        list(itr(tmp_path))


def rowmill_null_at(row):
    import polars as pl

    return pl.when(pl.col("id") == row).then(None).otherwise(pl.col("x1"))


def test_an_iterator_that_crossed_a_fork_says_so(folder):
    loader = itr(folder)
    batches = iter(loader)
    next(batches)
    feed_pid_error(batches)


def feed_pid_error(batches):
    """In a forked child `next` must raise at once; the parent goes on as if nothing had been."""
    import os

    child = os.fork()
    if child == 0:
        code = 1
        try:
            next(batches)
        except ForkedError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert sum(1 for _ in batches) == 15
