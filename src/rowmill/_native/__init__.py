"""The compiled core: what runs over every value, in C++. Typed arrays in and out; no policy and no files.

`core` is built from the C++ sources beside this file when the package is built. Each function checks shapes, dtypes and
bounds, releases the GIL, and has a short NumPy version in `reference` that the tests compare it with.
"""

from __future__ import annotations

try:
    from rowmill._native.core import (
        Columns,
        Destination,
        Lease,
        add_powers,
        build_narrow_index,
        build_wide_index,
        copy_lists,
        copy_rows,
        count_into,
        dot_rows,
        draw_folds,
        feistel_rows,
        find_narrow,
        find_wide,
        gather_rows,
        hash_bytes,
        hash_numbers,
        pack,
        pack_and_copy,
        put_counts,
        random_places,
        scatter_columns,
        shuffle,
        shuffle_segments,
        transpose,
    )
except ModuleNotFoundError as error:
    raise ImportError(
        "the compiled module of rowmill is missing; install the package (pip install .), which builds it"
    ) from error

__all__ = [
    "Columns",
    "Destination",
    "Lease",
    "add_powers",
    "build_narrow_index",
    "build_wide_index",
    "copy_lists",
    "copy_rows",
    "count_into",
    "dot_rows",
    "draw_folds",
    "feistel_rows",
    "find_narrow",
    "find_wide",
    "gather_rows",
    "hash_bytes",
    "hash_numbers",
    "pack",
    "pack_and_copy",
    "put_counts",
    "random_places",
    "scatter_columns",
    "shuffle",
    "shuffle_segments",
    "transpose",
]
