"""What a store looks like on disk: a layout and a number of rows in, file names, sizes and JSON out.

    <key>/manifest.json        rows, matrices, lists, and the checksum of every piece
    <key>/float32.memmap       a matrix [rows, width] for each dtype, raw, row after row; int64 as int32 if all fit
    <key>/meta.json            the same for `tensordict.TensorDict.load_memmap`
    <key>/lists/...            list columns: values and rows + 1 offsets each, and their own meta.json

Pure arithmetic; nothing is read or written here. Called by `store`.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from rowmill.errors import DamagedStoreError
from rowmill.feed.memory.block import Layout, Matrix
from rowmill.store.segments import Segment

FORMAT = 4
BUILDING = ".building"
MANIFEST, META, LISTS = "manifest.json", "meta.json", "lists"
MOST_TEXT = 64 << 20  # bytes of a manifest or journal, whatever the table
PIECE_BYTES = 4 << 20  # that are summed together: smaller ones cost more calls, larger ones more to find damage
_OWN = ("format", "rows", "matrices", "lists", "pieces")


@dataclass(frozen=True)
class StoreShape:
    """What is stored: a number of rows of a layout, and the dtype of the values of each list column."""

    layout: Layout
    rows: int
    lists: tuple[np.dtype[Any], ...] = ()

    @cached_property
    def narrow(self) -> StoreShape:
        """This shape with int32 for int64, which is enough for most ids: two fifths fewer bytes of a Criteo row."""
        narrow = replace(self.layout, matrices=tuple(map(_narrow, self.layout.matrices)))
        return replace(self, layout=by_dtype(narrow))

    @cached_property
    def piece_rows(self) -> int:
        """Segments end at multiples of this row number: a power of two, so that they begin on pages of the disk."""
        return 1 << (max(1, PIECE_BYTES // max(64, self.layout.row_bytes)) - 1).bit_length()

    @cached_property
    def names(self) -> tuple[str, ...]:
        """A name for each matrix: its own, which is never a column's, with its number where two share one."""
        own = [matrix.name for matrix in self.layout.matrices]
        return tuple(name if own.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(own))

    @cached_property
    def files(self) -> tuple[tuple[str, int], ...]:
        """Name and size of the file of each matrix."""
        sizes = (self.rows * matrix.row_bytes for matrix in self.layout.matrices)
        return tuple((f"{name}.memmap", size) for name, size in zip(self.names, sizes, strict=True))

    @property
    def nbytes(self) -> int:
        return self.rows * self.layout.row_bytes

    @cached_property
    def text_bytes(self) -> int:
        """More bytes than the manifest or journal of such a table takes: no more is ever read of one."""
        names = sum(64 + 8 * len(column) for matrix in self.layout.matrices for column in matrix.columns)
        names += sum(512 + 8 * len(column) for column in self.layout.ragged)
        return min(MOST_TEXT, (1 << 20) + 2 * names + (128 + 32 * len(self.lists)) * self.rows)

    def list_files(self, number: int) -> tuple[str, str]:
        """The files of the values and of the offsets of a list column."""
        return f"{LISTS}/values_{number}.memmap", f"{LISTS}/offsets_{number}.memmap"


def manifest(
    shape: StoreShape, pieces: Iterable[Segment], counts: Iterable[int], about: dict[str, Any]
) -> dict[str, Any]:
    """The manifest of a complete store; `counts` are the numbers of values of its list columns."""
    matrices = [
        {
            "file": file,
            "dtype": matrix.dtype.name,
            "shape": [shape.rows, matrix.width],
            "columns": list(matrix.columns),
            "widths": list(matrix.widths) or [1] * len(matrix.columns),
        }
        for (file, _), matrix in zip(shape.files, shape.layout.matrices, strict=True)
    ]
    lists = [
        {
            "column": column,
            "values": shape.list_files(number)[0],
            "offsets": shape.list_files(number)[1],
            "dtype": dtype.name,
            "count": count,
        }
        for number, (column, dtype, count) in enumerate(zip(shape.layout.ragged, shape.lists, counts, strict=True))
    ]
    content = {
        "format": FORMAT,
        **about,
        "rows": shape.rows,
        "matrices": matrices,
        "lists": lists,
        "pieces": [[piece.start, piece.rows, f"{piece.checksum:016x}"] for piece in pieces],
    }
    return {**content, "sha256": _sum(content)}


def checked(text: bytes, shape: StoreShape, key: str) -> tuple[list[Segment], list[int]]:
    """The pieces and value counts of a manifest, if it is whole and describes this shape of the table with this key.

    Values of another type, names given twice, and pieces that are not all rows in their order are damage too.
    """
    try:
        content = parse_json(text)
        given = content.pop("sha256")
        pieces = [_piece(*entry) for entry in content["pieces"]]
        counts = [_natural(entry["count"]) for entry in content["lists"]]
        about = {name: content[name] for name in content if name not in _OWN}
        stops = [0, *(piece.stop for piece in pieces)]
        if [piece.start for piece in pieces] != stops[:-1] or stops[-1] != shape.rows:
            raise ValueError("pieces that are not all rows")
        if set(about) != {"key", "source"} or not about["key"].startswith(key) or not isinstance(about["source"], str):
            raise ValueError("another table")
        whole = manifest(shape, pieces, counts, about) if len(counts) == len(shape.lists) else {}
        if given != _sum(content) or whole.get("sha256") != given:
            raise ValueError("another sum")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DamagedStoreError(
            f"its manifest has changed, or is another table's ({type(error).__name__}: {error})"[:300]
        ) from error
    return pieces, counts


def key_of(name: str) -> str:
    """The part of a store's folder name that is the beginning of its table's key."""
    parts = name.split("-")
    return parts[1] if len(parts) == 3 else ""


def parse_json(text: bytes) -> dict[str, Any]:
    """A JSON object without floats, without NaN and without a name twice. Raises `ValueError` for anything else."""
    try:
        found = json.loads(text, object_pairs_hook=_pairs, parse_float=_refuse, parse_constant=_refuse)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(found, dict):
        raise ValueError(f"{type(found).__name__} instead of an object")
    return found


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name that is given twice")
    return found


def _refuse(text: str) -> Any:
    raise ValueError(f"{text[:40]}, which is no integer")


def _natural(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**63:
        raise ValueError("a number that is no count")
    return value


def _piece(start: Any, rows: Any, total: Any) -> Segment:
    if not isinstance(total, str) or not re.fullmatch("[0-9a-f]{16}", total) or not rows:
        raise ValueError("a piece that is none")
    return Segment(_natural(start), _natural(rows), int(total, 16))


def tensordict_meta(entries: dict[str, tuple[np.dtype[Any], list[int]]], batch: list[int]) -> dict[str, Any]:
    """What `TensorDict.load_memmap` reads: for each name a dtype and a shape, and the shape they share."""
    return {
        **{
            name: {"device": "cpu", "shape": shape, "dtype": f"torch.{dtype.name}", "is_nested": False}
            for name, (dtype, shape) in entries.items()
        },
        "shape": batch,
        "device": "cpu",
        "_type": "<class 'tensordict._td.TensorDict'>",
        "_format_version": 1,
        "_class": "tensordict:TensorDict",
    }


def by_dtype(layout: Layout) -> Layout:
    """These columns with one matrix for each dtype: a row read at random is then in as few places as can be.

    A label that stands in a file of its own costs a line of memory, and so a sixth of the time of a Criteo row.
    """
    found: dict[np.dtype[Any], list[tuple[str, int]]] = {}
    for matrix in layout.matrices:
        found.setdefault(matrix.dtype, []).extend(matrix.of_width)
    matrices = []
    for dtype, columns in found.items():
        names, widths = tuple(name for name, _ in columns), tuple(width for _, width in columns)
        matrices.append(Matrix(dtype.name, dtype, names, widths if any(width != 1 for width in widths) else ()))
    return replace(layout, matrices=tuple(matrices))


def _narrow(matrix: Matrix) -> Matrix:
    return replace(matrix, dtype=np.dtype("int32")) if matrix.dtype == np.int64 else matrix


def _sum(content: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
