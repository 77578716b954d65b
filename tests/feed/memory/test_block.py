"""Memory of a batch returns when its last view is gone, and not before; whatever the views are made into."""

import gc
import threading

import numpy as np
import pytest

from rowmill.feed.memory.block import Layout, Matrix, Memory, Pool


def address(array):
    return array.__array_interface__["data"][0]


def pool():
    matrices = (Matrix("ids", np.dtype("int64"), ("a", "b")), Matrix("x", np.dtype("float32"), ("c",)))
    return Pool(Layout(matrices), 64, 16)


def test_memory_is_lent_again_once_nobody_looks_into_it():
    memory = Memory(4)
    first = memory.take(1000)
    where = address(first)
    second = memory.take(1000)
    assert address(second) != where
    del first
    assert address(memory.take(900)) == where
    assert address(memory.take(5000)) not in (where, address(second))


VIEWS = {
    "one matrix of two": lambda block: block.matrices[1],
    "one row": lambda block: block.view(5, 1)[0],
    "a slice of a slice": lambda block: block.matrices[0][10:50][::3][2:, 1],
    "a column": lambda block: block.matrices[0].T[1],
    "another dtype": lambda block: block.matrices[0].view(np.uint8)[3:7],
    "a memoryview": lambda block: memoryview(block.matrices[0][4:6]),
    "a torch tensor": lambda block: pytest.importorskip("torch").from_numpy(block.matrices[0])[3:9].t()[0],
    "a torch storage": lambda block: pytest.importorskip("torch").from_numpy(block.matrices[1]).untyped_storage(),
    "a DLPack export": lambda block: pytest.importorskip("torch").from_dlpack(block.matrices[0][7:9]),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
def test_a_single_view_keeps_its_block(view):
    lender = pool()
    block = lender.take()
    for matrix in block.matrices:
        matrix[...] = 7
    base = address(block.matrices[0])
    held = view(block)
    del block
    gc.collect()
    others = [lender.take() for _ in range(6)]
    assert all(address(other.matrices[0]) != base for other in others)
    for other in others:
        for matrix in other.matrices:
            matrix[...] = 0
    del held, other, others, matrix
    gc.collect()
    assert base in {address(taken.matrices[0]) for taken in [lender.take() for _ in range(16)]}


def test_a_pool_remembers_no_more_than_it_may():
    memory = Memory(2)
    held = [memory.take(100) for _ in range(5)]
    places = {address(array) for array in held}
    del held
    again = [memory.take(100) for _ in range(2)]
    assert {address(array) for array in again} <= places and len(memory._free) == 0


def test_threads_never_share_what_is_lent():
    memory, wrong = Memory(8), []

    def work(number):
        for _ in range(2000):
            mine = memory.take(256)
            mine[...] = number
            if not (mine == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
