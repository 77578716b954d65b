"""The compiled functions, and what each does. `reference` says the same in NumPy."""

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_Array = NDArray[Any]
_Places = NDArray[np.uint32]  # of rows in a chunk
_Plan = NDArray[np.int64]  # lines of (output, input, offset, size, widen); see `feed.parts`

class Lease:
    """Memory that is lent: arrays made of it (`np.asarray`) keep it alive, and its end appends it to `returned`."""

    def __init__(self, memory: NDArray[np.uint8], returned: deque[NDArray[np.uint8]]) -> None: ...
    @property
    def __array_interface__(self) -> dict[str, Any]: ...

class Columns:
    """Contiguous columns of one length (2-D for fixed-size lists), and the matrix and slot that each is packed to."""

    def __init__(self, arrays: Sequence[_Array], matrices: Sequence[int], slots: Sequence[int]) -> None: ...
    @property
    def rows(self) -> int: ...

class Destination:
    """The matrices of the blocks of a chunk: one array a block, of (units, rows, columns), or of (units, columns, rows)
    where column-major. Places number the rows of all units, `unit` rows in each."""

    def __init__(self, arrays: Sequence[Sequence[_Array]], column_major: Sequence[bool], unit: int) -> None: ...

def pack(columns: Columns, first: int, matrices: Sequence[_Array]) -> int | None:
    """Write rows `first` and on of the columns to row-major matrices. Gives the number of a column of which a value
    does not fit its matrix's dtype, or None."""

def pack_and_copy(
    columns: Columns,
    first: int,
    tile_rows: int,
    matrices: Sequence[_Array],
    plan: _Plan,
    places: _Places,
    destination: Destination,
) -> int | None:
    """Pack rows a tile at a time into matrices, and copy them from there to their places. Where the matrices have room
    for all rows, these stay there; otherwise each tile overwrites the one before. Result as of `pack`."""

def scatter_columns(columns: Columns, first: int, places: _Places, destination: Destination) -> int | None:
    """Write values of columns straight to their places in column-major matrices; others are left out. Result as of
    `pack`."""

def copy_rows(matrices: Sequence[_Array], first: int, plan: _Plan, places: _Places, destination: Destination) -> None:
    """Copy rows `first` and on of packed matrices to their places."""

def gather_rows(
    matrices: Sequence[_Array],
    rows: NDArray[np.int64],
    plan: _Plan,
    places: _Places,
    destination: Destination,
    streaming: bool,
) -> None:
    """Copy row `rows[i]` of packed matrices to place `places[i]`: quickly where places follow each other. `streaming`:
    with non-temporal stores, for more than the cache holds."""

def transpose(matrix: _Array, columns: _Array) -> None:
    """Copy a row-major matrix to one that has a row for each of its columns."""

def copy_lists(
    source: _Array, starts: NDArray[np.int64], places: _Places, offsets: NDArray[np.int64], values: _Array
) -> None:
    """Copy list `i`, values `starts[i]` to `starts[i + 1]` of the source, to `offsets[places[i]]` and on."""

def shuffle(items: NDArray[np.uint32], key: int) -> None:
    """Put items in a random order that is a function of the key (Fisher-Yates)."""

def shuffle_segments(items: NDArray[np.uint32], segment: int, key: int) -> None:
    """Shuffle each run of `segment` items by itself."""

def random_places(
    places: _Places, drawn: NDArray[np.uint16], shuffled: NDArray[np.uint32], bins: int, key: int
) -> None:
    """A random order of all places (Rao-Sandelius). `drawn` and `shuffled` are memory to work in."""

def feistel_rows(
    rows: NDArray[np.int64], first: int, total: int, height: int, width: int, keys: NDArray[np.uint32]
) -> None:
    """Numbers `first` and on of a random order of `total` rows: a six-round Feistel permutation with cycle walking."""

def add_powers(values: _Array, low: NDArray[np.int64], high: NDArray[np.int64]) -> tuple[int, int]:
    """Add all finite values to `low` (units of 2^-1074) and their squares to `high` (2^-2148), digits to the base 2^32.
    Gives how many were finite, and how many infinite."""

def count_into(
    values: NDArray[np.int64], start: int, keys: NDArray[np.int64], counts: NDArray[np.int64], used: int, room: int
) -> tuple[int, int]:
    """Count values from `start` on in a hash table, until `room` keys are used: (where it stopped, keys used)."""

def put_counts(
    new_keys: NDArray[np.int64], new_counts: NDArray[np.int64], keys: NDArray[np.int64], counts: NDArray[np.int64]
) -> int:
    """Add counted keys (those with a count) to a hash table that has room for all of them: how many were new."""

def build_narrow_index(keys: NDArray[np.int64], table: NDArray[np.int64]) -> None:
    """Fill a table of zeros so that `find_narrow` finds the place of each of these different keys of 32 bits."""

def find_narrow(values: NDArray[np.int64], table: NDArray[np.int64], places: NDArray[np.int32]) -> None:
    """The place of each value among the keys, or -1."""

def build_wide_index(keys: NDArray[np.int64], table: NDArray[np.int64]) -> None:
    """Fill a table of zeros, two for each slot, so that `find_wide` finds the place of each of these different keys."""

def find_wide(values: NDArray[np.int64], table: NDArray[np.int64], places: NDArray[np.int32]) -> None:
    """The place of each value among the keys, or -1."""

def hash_numbers(values: NDArray[np.int64], hashes: NDArray[np.uint64]) -> None:
    """Mix each value into its hash so far."""

def hash_bytes(offsets: NDArray[np.int64], data: NDArray[np.uint8], hashes: NDArray[np.uint64]) -> None:
    """Mix each string, bytes `offsets[i]` to `offsets[i + 1]`, into its hash so far."""

def draw_folds(rows: NDArray[np.int64], seed: int, folds: int, drawn: NDArray[np.uint8]) -> None:
    """The fold of every row by its number: random by seed, and independent of how the table is read."""

def dot_rows(
    left: NDArray[np.int64],
    right: NDArray[np.int64],
    a_starts: NDArray[np.int64],
    a_columns: NDArray[np.int64],
    a_values: NDArray[np.float64],
    b_starts: NDArray[np.int64],
    b_columns: NDArray[np.int64],
    b_values: NDArray[np.float64],
    products: NDArray[np.float64],
) -> None:
    """The inner product of row `left[i]` of sparse matrix a with row `right[i]` of b, whose columns are sorted."""
