"""A table of a saved workflow, from the bytes of its Parquet file. Sizes are checked before anything is decompressed.

Page headers are compared with the limit, values are counted, and texts stay dictionary-encoded until their real size
is known: a short file can stand for many gigabytes.
"""

from __future__ import annotations

from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmill.graph.saved.folder import ByteBudget
from rowmill.graph.saved.page_sizes import damaged, pages

MAX_COLUMNS = 100_000
MAX_DEPTH = 8


def read_table(content: bytes, name: str, budget: ByteBudget) -> pl.DataFrame:
    """The rows of a table. `name` is for errors."""
    try:
        file = pq.ParquetFile(
            pa.BufferReader(content), thrift_string_size_limit=1 << 24, thrift_container_size_limit=1 << 20
        )
        texts = _check_sizes(file.metadata, content, name, budget)
        file = pq.ParquetFile(pa.BufferReader(content), read_dictionary=texts)
        table = file.read(use_threads=False)
        table.validate(full=True)
        columns = [_decoded(column, name, budget) for column in table.columns]
        made = pl.from_arrow(pa.table(columns, names=table.column_names) if columns else table)
    except (pa.ArrowException, OSError, TypeError, ValueError, KeyError, pl.exceptions.PolarsError) as error:
        if type(error).__module__.startswith("rowmill"):
            raise
        raise damaged(f"{name}: {str(error)[:200]}") from error
    assert isinstance(made, pl.DataFrame)
    made.columns = table.column_names  # an empty name is a name
    return made


def _check_sizes(metadata: Any, content: bytes, name: str, budget: ByteBudget) -> list[str]:
    """Count what decoding will take. Gives the columns of texts, which take more once their dictionary is decoded."""
    if metadata.num_columns > MAX_COLUMNS:
        raise damaged(f"{name} has {metadata.num_columns} columns")
    texts = []
    for number in range(metadata.num_columns):
        column = metadata.schema.column(number)
        repeated = False
        width = max(16, column.length if column.physical_type == "FIXED_LEN_BYTE_ARRAY" else 0)
        if column.path.count(".") > 2 * MAX_DEPTH:
            raise damaged(f"{name} has lists that are nested too deeply")
        for group in range(metadata.num_row_groups):
            chunk = metadata.row_group(group).column(number)
            first = chunk.data_page_offset
            if chunk.has_dictionary_page and chunk.dictionary_page_offset is not None:
                first, repeated = min(first, chunk.dictionary_page_offset), True
            found = list(pages(content, first, chunk.total_compressed_size))
            values = max(chunk.num_values, sum(page.values for page in found), metadata.row_group(group).num_rows)
            repeated = repeated or any(page.dictionary for page in found)
            budget.take(sum(page.size for page in found) + values * width, name)
        if repeated and column.physical_type == "BYTE_ARRAY":
            texts.append(column.path)
    if not metadata.num_columns:
        budget.take(metadata.num_rows, name)
    return texts


def _decoded(column: Any, name: str, budget: ByteBudget) -> Any:
    """A column without dictionaries, once it is known how much memory that takes."""
    wanted = _plain(column.type)
    if wanted == column.type:
        return column
    for chunk in column.chunks:
        budget.take(_text_bytes(chunk), name)
    return column.cast(wanted)


def _plain(dtype: Any) -> Any:
    """An Arrow type with texts in the place of dictionaries."""
    if pa.types.is_dictionary(dtype):
        value = dtype.value_type
        return pa.large_binary() if pa.types.is_binary(value) or pa.types.is_large_binary(value) else pa.large_string()
    if pa.types.is_list(dtype) or pa.types.is_large_list(dtype):
        return pa.large_list(_plain(dtype.value_type))
    if pa.types.is_struct(dtype):
        return pa.struct([dtype.field(i).with_type(_plain(dtype.field(i).type)) for i in range(dtype.num_fields)])
    return dtype


def _text_bytes(array: Any) -> int:
    """How many bytes the texts of an array have, repeated as often as they occur."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.take(pc.binary_length(array.dictionary), array.indices)
        return int(pc.sum(lengths.cast(pa.int64())).as_py() or 0)
    if pa.types.is_list(array.type) or pa.types.is_large_list(array.type):
        return _text_bytes(array.flatten())
    if pa.types.is_struct(array.type):
        return sum(_text_bytes(array.field(i)) for i in range(array.type.num_fields))
    return 0
