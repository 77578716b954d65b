"""The small files beside written data: what other tools and the next `Dataset` want to know without opening each file.

`_metadata` (all footers in one), `_file_list.txt` (count, then names), `_metadata.json` (rows of each file
and the use of columns), `.rowmill/schema.json` (the schema with its tags).
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rowmill.schema import Schema, Tags

if TYPE_CHECKING:
    from rowmill.sinks.parquet import Written

SCHEMA_FOLDER = ".rowmill"


def write_side_files(
    folder: Path,
    files: Sequence[Written],
    schema: Schema,
    cats: Sequence[str],
    conts: Sequence[str],
    labels: Sequence[str],
) -> None:
    """Write all of them into a folder that is still being staged."""
    write_metadata(folder / "_metadata", [(f.name, f.footer) for f in files])
    (folder / "_file_list.txt").write_text("\n".join([str(len(files)), *(f.name for f in files)]) + "\n")
    order = {name: i for i, name in enumerate(schema.column_names)}
    uses = {"cats": cats, "conts": conts, "labels": labels}
    content: dict[str, Any] = {"file_stats": [{"file_name": f.name, "num_rows": f.rows} for f in files]}
    content |= {use: [{"col_name": n, "index": order[n]} for n in names] for use, names in uses.items()}
    (folder / "_metadata.json").write_text(json.dumps(content, indent=1))
    (folder / SCHEMA_FOLDER).mkdir(exist_ok=True)
    (folder / SCHEMA_FOLDER / "schema.json").write_text(schema.to_json())


def write_metadata(path: Path, footers: Sequence[tuple[str, Any]]) -> None:
    """Merge footers into one file, each row group with the relative name of its file."""
    merged = None
    for name, footer in footers:
        footer.set_file_path(name)
        if merged is None:
            merged = footer
        else:
            merged.append_row_groups(footer)
    if merged is not None:
        part = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        merged.write_metadata_file(str(part))
        part.rename(path)


def tagged(schema: Schema, cats: Sequence[str], conts: Sequence[str], labels: Sequence[str]) -> Schema:
    """The schema with the use of columns as tags."""
    uses = [(cats, Tags.CATEGORICAL), (conts, Tags.CONTINUOUS), (labels, Tags.TARGET)]
    for names, tag in uses:
        schema = schema + Schema(schema[n].with_tags(tag) for n in names)
    return schema
