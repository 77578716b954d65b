"""How large an embedding table a column wants: `get_embedding_sizes`."""

from __future__ import annotations

from typing import Any

from rowmill.errors import ArgumentError
from rowmill.schema import Schema, Tags

Sizes = dict[str, tuple[int, int]]


def embedding_size(cardinality: int) -> int:
    """The usual rule of thumb: between 16 and 512, growing a little faster than the square root."""
    return int(min(max(16, round(1.6 * cardinality**0.56)), 512))


def get_embedding_sizes(source: Any, output_dtypes: Any = None) -> Sizes | tuple[Sizes, Sizes]:
    """Column to (cardinality, dimension) for the categorical columns, in lexicographic order, as loaders have them.

    `source`: a fitted workflow, a node of one, a dataset it has transformed, or a schema. Where a categorical column
    is a list, a tuple of two dicts: for columns with one value a row, and for lists. `output_dtypes` means nothing.
    """
    schema = source if isinstance(source, Schema) else getattr(source, "output_schema", None) or source.schema
    single: Sizes = {}
    multiple: Sizes = {}
    for column in sorted(schema.select_by_tag(Tags.CATEGORICAL), key=lambda c: c.name):
        sizes = column.properties.get("embedding_sizes")
        if sizes is None:
            raise ArgumentError(
                f"column {column.name!r} is tagged categorical, and its number of values is not known; fit the "
                f"workflow first, or encode the column with Categorify, HashBucket, HashedCross or Bucketize"
            )
        (multiple if column.is_list else single)[column.name] = (sizes["cardinality"], sizes["dimension"])
    return (single, multiple) if multiple else single
