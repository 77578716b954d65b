"""The memory pool of streamed rows: one that returns freed memory to the system at once.

PyArrow's default pool keeps freed memory for some time (100 MB of decompressed pages were seen), which would count
against the memory setting. Called by `arrow`, `slices` and `batch_copy`.
"""

from __future__ import annotations

from functools import cache

import pyarrow as pa


@cache
def returning_pool() -> pa.MemoryPool:
    """PyArrow's jemalloc pool, told to keep nothing; the default pool where PyArrow was built without jemalloc.

    If jemalloc is the default pool, it is left as it is: others use it too.
    """
    if pa.default_memory_pool().backend_name != "jemalloc":
        try:
            pool = pa.jemalloc_memory_pool()
            pa.jemalloc_set_decay_ms(0)
        except NotImplementedError:
            pass
        else:
            return pool
    return pa.default_memory_pool()
