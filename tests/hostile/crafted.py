# ruff: noqa: E501
"""Workflow folders that somebody could have made by hand, each sealed with a manifest that fits."""

import copy
import inspect
import json
import os
import pickle
import random
import shutil
import warnings
from io import BytesIO
from pathlib import Path

import polars as pl

from rowmill import Workflow, ops
from rowmill.graph.saved import save as saving
from tests.hostile.expressions import EXPRESSIONS, FRAME
from tests.ops.samples import SAMPLES, table


class Payload:
    """Unpickles into a call that makes a file."""

    def __init__(self, marker):
        self.marker = str(marker)

    def __reduce__(self):
        return os.mkdir, (self.marker,)


def odd_values(marker):
    """What to put in the place of any part of a JSON file."""
    code = list(pickle.dumps(Payload(marker)))
    polars_code = [80, 76, 80, 89, 70, 78, 148, 192, 192, 194, 194, 1, 11, 7, *code]
    return [
        None, True, False, -1, 0, 2, 3.7, 1e308, -1e308, 1 << 31, (1 << 31) - 1, -(1 << 31), (1 << 63) - 1, 1 << 63, 1 << 64,
        1 << 70, 10**30, 10**400, "", "x" * 70_000, "$", "\ud800", [], {}, [[]], [None], {"a": 1}, code, polars_code, [0] * 50,
        [255] * 200, "/etc/passwd", "/etc/*", "file:///etc/passwd", "s3://bucket/key", "http://127.0.0.1:9/x.parquet",
        "../../../etc/passwd", "~/.bashrc", "/dev/zero", ["/etc/passwd"], {"$path": "/etc/passwd"},
        {"$function": "os.system"}, {"$frame": 0}, {"$frame": 10**9}, {"$frame": -1}, {"$series": 0}, {"$int": "9" * 399},
        {"$float": "nan"}, {"$float": "inf"}, {"$tuple": [1, 2]}, {"$dict": [[1, 2]]}, {"$dtype": "list[" * 300},
        {"$dtype": "decimal[99,99]"}, {"$array": 0, "shape": [10**12]}, {"$columns": [["*"], [], []]},
        {"$expr": {"Column": "a"}}, {"$expr": {"AnonymousFunction": {"input": [], "function": code}}},
        {"$expression": {"column": "i"}}, {"$expression": {"call": "str.zfill", "of": []}},
        {"Column": "a"}, {"Literal": {"Scalar": {"List": code}}}, {"OfExpr": {"RenameAlias": {"Map": code}}},
        {"RenameAlias": {"expr": {"Column": "a"}, "function": {"Map": polars_code}}},
        {"Function": {"input": [{"Column": "a"}], "function": {"StructExpr": {"MapFieldNames": polars_code}}}},
        {"Function": {"input": [{"Column": "a"}], "function": {"FoldHorizontal": {"callback": code}}}},
        {"call": "cast", "of": [{"column": "i"}], "dtype": {"OfExpr": code}, "mode": "Strict"},
        {"call": "__class__", "of": [{"column": "i"}]}, {"call": "map_batches", "of": [{"column": "i"}]},
        {"call": "meta.serialize", "of": [{"column": "i"}]}, {"call": "repeat_by", "of": [{"column": "i"}, {"column": "i"}]},
        {"call": "repeat_by", "of": [{"column": "s"}, {"literal": 32768, "dtype": "int"}]}, {"column": "^.*$"},
        {"call": "str.pad_start", "of": [{"column": "s"}, {"literal": 32768, "dtype": "int"}], "fill_char": "x"},
        {"literal": 10**30, "dtype": "int64"}, {"literal": "x" * 60_000, "dtype": "string"}, {"list": [1] * 1000, "dtype": "int64"},
        {"series": [1] * 1000, "dtype": "int64"}, {"columns": ["i"] * 500}, {"element": True},
        {"call": "str.replace", "of": [{"column": "s"}, {"literal": "", "dtype": "string"},
                                       {"literal": "y" * 900, "dtype": "string"}], "n": -1, "literal": False},
        {"call": "str.contains", "of": [{"column": "s"}, {"literal": "(a{31}){31}", "dtype": "string"}],
         "literal": False, "strict": True},
        {"call": "str.contains", "of": [{"column": "s"}, {"literal": "((((a{999}){999}){999}){9}", "dtype": "string"}],
         "literal": False, "strict": True},
    ]  # fmt: skip


def places(data, found=None):
    """Every (container, key) of a JSON value."""
    found = [] if found is None else found
    for key, value in list(data.items() if isinstance(data, dict) else enumerate(data)):
        found.append((data, key))
        if isinstance(value, dict | list):
            places(value, found)
    return found


class Maker:
    """Writes folders below a path, one after the other."""

    def __init__(self, root, seed):
        self.root, self.draw, self._count = Path(root), random.Random(seed), 0
        self.marker = self.root / "marker"
        self.odd = odd_values(self.marker)
        self._cached = {}

    def folder(self):
        self._count += 1
        return self.root / f"w{self._count:05}"

    def base(self, name, node, frame):
        """A saved workflow to start from, as parts: its graph and the bytes of its tables."""
        if name not in self._cached:
            target = self.root / f"base {len(self._cached)}"
            Workflow(node).fit(frame).save(target)
            tables = {f"tables/{p.name}": p.read_bytes() for p in (target / "tables").glob("*")}
            self._cached[name] = json.loads((target / saving.GRAPH).read_text()), tables
        graph, tables = self._cached[name]
        return copy.deepcopy(graph), dict(tables)

    def write(self, graph, tables):
        target = self.folder()
        (target / "tables").mkdir(parents=True)
        text = graph if isinstance(graph, bytes) else json.dumps(graph).encode()
        files = {saving.GRAPH: text, **tables}
        for name, content in files.items():
            (target / name).write_bytes(content)
        return seal(target, files)

    # Kinds of attack: each writes one folder.

    def mutated_expression(self):
        expr = self.draw.randrange(len(EXPRESSIONS))
        graph, tables = self.base(f"e{expr}", FRAME.columns >> ops.Expr(q=EXPRESSIONS[expr]), FRAME)
        settings = next(node for node in graph["nodes"] if node["kind"] == "Apply")["settings"]
        for _ in range(self.draw.choice([1, 1, 1, 2, 3])):
            parent, key = self.draw.choice(places(settings["exprs"]))
            value = copy.deepcopy(self.draw.choice(self.odd))
            if isinstance(parent, dict) and self.draw.random() < 0.1:
                parent[self.draw.choice(["extra", "call", "of", "literal", "$expr"])] = value
            else:
                parent[key] = value
        return self.write(graph, tables)

    def polars_expression(self):
        """What Polars itself writes, of any of its functions, with code in a random place."""
        written = copy.deepcopy(self.draw.choice(polars_expressions()))
        whole = [written]
        if self.draw.random() < 0.8:
            parent, key = self.draw.choice(places(whole))
            parent[key] = copy.deepcopy(self.draw.choice(self.odd))
        graph, tables = self.base("e0", FRAME.columns >> ops.Expr(q=EXPRESSIONS[0]), FRAME)
        settings = next(node for node in graph["nodes"] if node["kind"] == "Apply")["settings"]
        kind = self.draw.choice(["$expr", "$expression", "$expression"])
        settings["exprs"] = {"$tuple": [{kind: whole[0]}]}
        return self.write(graph, tables)

    def mutated_graph(self):
        name = self.draw.choice(list(SAMPLES))
        graph, tables = self.base(name, SAMPLES[name], table(60))
        for _ in range(self.draw.choice([1, 1, 2, 4])):
            part = self.draw.choice(["nodes", "nodes", "nodes", "columns"])
            parent, key = self.draw.choice(places(graph[part]))
            parent[key] = copy.deepcopy(self.draw.choice(self.odd))
        if self.draw.random() < 0.2:
            graph["columns"] = None  # then nothing is known of the table when loading
        return self.write(graph, tables)

    def mutated_settings(self):
        """Every setting of every operator, above all with paths and huge numbers."""
        name = self.draw.choice(list(SAMPLES))
        graph, tables = self.base(name, SAMPLES[name], table(60))
        applied = [n for n in graph["nodes"] if n["kind"] == "Apply" and n["settings"]]
        if applied:
            settings = self.draw.choice(applied)["settings"]
            settings[self.draw.choice(list(settings))] = copy.deepcopy(self.draw.choice(self.odd))
        if self.draw.random() < 0.3:
            graph["columns"] = None
        return self.write(graph, tables)

    def other_tables(self):
        """Tables of other rows, columns and types than those that were learnt; damaged ones; bombs."""
        named = [name for name in SAMPLES if self.base(name, SAMPLES[name], table(60))[1]]
        name = self.draw.choice(named)
        graph, tables = self.base(name, SAMPLES[name], table(60))
        which = self.draw.choice(list(tables))
        tables[which] = self.draw.choice([self._twisted, self._damaged, self._bomb])(tables[which])
        return self.write(graph, tables)

    def _twisted(self, content):
        frame = pl.read_parquet(BytesIO(content))
        way = self.draw.randrange(6)
        if way == 0:
            frame = pl.concat([frame, frame])
        elif way == 1 and frame.width:
            frame = frame.drop(self.draw.choice(frame.columns))
        elif way == 2:
            frame = frame.head(0)
        elif way == 3:
            frame = frame.select(pl.all().cast(pl.String, strict=False))
        elif way == 4:
            frame = frame.select(pl.lit(None, dtype=dtype).alias(name) for name, dtype in frame.schema.items())
        else:
            frame = frame.with_columns(pl.selectors.numeric() * 0 - (1 << 40))
        return parquet(frame)

    def _damaged(self, content):
        content = bytearray(content)
        for _ in range(self.draw.choice([1, 1, 3, 10])):
            content[self.draw.randrange(len(content))] ^= 1 << self.draw.randrange(8)
        return bytes(content[: self.draw.choice([len(content), len(content), len(content) // 2])])

    def _bomb(self, content):
        names = pl.read_parquet(BytesIO(content)).columns or ["a"]
        way, rows = self.draw.randrange(3), 60_000_000
        if way == 0:
            return _cached("numbers", lambda: parquet(pl.DataFrame({"a": pl.repeat(7, rows, eager=True)})))
        if way == 1:
            return _cached(
                "texts", lambda: parquet(pl.DataFrame({names[0]: pl.repeat("x" * 1_000_000, 5_000, eager=True)}))
            )
        return _cached(
            "lists", lambda: parquet(pl.DataFrame({"l": pl.Series([["y" * 100_000] * 100]).new_from_index(0, 500)}))
        )

    def bad_files(self):
        """Links, pipes, devices, sparse files, bombs of JSON, and names that lead out of the folder."""
        graph, tables = self.base("chain", SAMPLES["chain"], table(60))
        target = self.write(graph, tables)
        name = self.draw.choice([saving.GRAPH, saving.MANIFEST, "tables", *tables])
        way = self.draw.randrange(9)
        if way < 4 and name != "tables":
            (target / name).unlink()
        if way == 0 and name != "tables":
            (target / name).symlink_to(self.draw.choice(["/etc/passwd", "/dev/zero", "/dev/stdin", "/proc/self/mem"]))
        elif way == 1 and name != "tables":
            os.mkfifo(target / name)
        elif way == 2 and name != "tables":
            with (target / name).open("wb") as file:
                file.truncate(1 << 40)
        elif way == 3 and name != "tables":
            (target / name).mkdir()
        elif way == 4:
            (target / name).rename(target.with_suffix(".moved"))
            (target / name).symlink_to(target.with_suffix(".moved"))
        elif way == 5:
            bomb = self.draw.choice(
                [b"[" * 14_000_000, b"[" + b"[]," * 4_000_000 + b"[]]", b'"' + b"x" * 14_000_000 + b'"']
            )
            (target / saving.GRAPH).write_bytes(bomb)
            seal(target, {saving.GRAPH: bomb, **tables})
        elif way == 6:
            content = b'{"format": "rowmill.workflow", "version": 1, "x": [' + b"{}," * 30_000_000 + b"{}]}"
            (target / self.draw.choice([saving.GRAPH, saving.MANIFEST])).write_bytes(content)
            seal(target, {saving.GRAPH: content, **tables})
        elif way == 7:
            many = [{"kind": "Select", "parents": [], "columns": {"$columns": [["*"], [], []]}} for _ in range(1_900)]
            graph["columns"] = [{"name": f"c{n}", "dtype": "int64"} for n in range(20_000)]
            graph["nodes"] = [*many, {"kind": "Concat", "parents": list(range(1_900))}]
            shutil.rmtree(target)
            return self.write(graph, tables)
        else:
            chain = [{"kind": "Select", "parents": [], "columns": {"$columns": [["f"], [], []]}}]
            operator = self.draw.choice([
                {"operator": "LogOp", "settings": {}}, {"operator": "Rename", "settings": {"postfix": "x" * 500}},
                {"operator": "Expr", "settings": {"exprs": {"$tuple": [{"$expression": {
                    "call": "+", "of": [{"column": "f"}, {"column": "f"}]}}]}, "keep": False}},
                {"operator": "FillMissing", "settings": {"add_binary_cols": False}},
            ])  # fmt: skip
            chain += [{"kind": "Apply", "parents": [n], **operator} for n in range(self.draw.choice([150, 1_900]))]
            graph["nodes"] = chain
            shutil.rmtree(target)
            return self.write(graph, tables)
        return target

    def growing(self):
        """Constants at their largest, nested and chained: what multiplies is refused, what is left is small."""
        value = {"column": "s"}
        for _ in range(self.draw.randint(1, 6)):
            if len(json.dumps(value)) > 100_000:
                break
            value = self.draw.choice([
                {"call": "str.pad_start", "of": [value, lit(self.draw.choice([1, 100, 32_768]))], "fill_char": "x"},
                {"call": "str.zfill", "of": [value, lit(32_768)]},
                {"call": "str.replace", "of": [value, lit(""), lit("z" * self.draw.choice([1, 10, 100, 1_000]))],
                 "n": -1, "literal": False},
                {"call": "str.replace", "of": [value, lit("$"), lit("$0" * 400)], "n": -1, "literal": False},
                {"call": "concat_str", "of": [value] * self.draw.choice([2, 10, 100]), "separator": "-" * 1000,
                 "ignore_nulls": False},
                {"call": "list.join", "of": [{"call": "str.split", "of": [value, lit("")], "inclusive": False},
                                             lit("w" * 999)], "": 1},
                {"call": "list.join", "of": [{"call": "str.split", "of": [value, lit("")], "inclusive": False},
                                             lit("w" * self.draw.choice([1, 99]))], "ignore_nulls": True},
                {"call": "list.join", "of": [{"call": "repeat_by", "of": [value, lit(self.draw.choice([2, 30_000]))]},
                                             lit(",")], "ignore_nulls": True},
                {"call": "format", "of": [value] * 3, "format": "u" * 900, "insertions": [0, 5, 900]},
            ])  # fmt: skip
        graph, tables = self.base("e0", FRAME.columns >> ops.Expr(s=EXPRESSIONS[0]), FRAME)
        node = next(node for node in graph["nodes"] if node["kind"] == "Apply")
        node["settings"]["exprs"] = {"$tuple": [{"$expression": {"call": "alias", "of": [value], "name": "s"}}]}
        first = len(graph["nodes"]) - 1
        for place in range(self.draw.randint(0, 4)):
            graph["nodes"].append({**copy.deepcopy(node), "parents": [first + place]})
        return self.write(graph, tables)

    KINDS = (
        mutated_expression, mutated_expression, polars_expression, mutated_graph, mutated_settings, other_tables,
        bad_files, growing,
    )  # fmt: skip

    def make(self, number):
        return self.KINDS[number % len(self.KINDS)](self)


def lit(value):
    return {"literal": value, "dtype": "int" if isinstance(value, int) else "string"}


def seal(target, files):
    sums = {name: {"bytes": len(content), "sha256": saving.sha256(content)} for name, content in files.items()}
    manifest = {"format": saving.FORMAT, "version": 1, "files": sums}
    if (target / saving.MANIFEST).is_file() or not os.path.lexists(target / saving.MANIFEST):
        (target / saving.MANIFEST).write_text(json.dumps(manifest))
    return target


def parquet(frame):
    written = BytesIO()
    frame.write_parquet(written, compression="zstd", statistics=False)
    return written.getvalue()


_made = {}


def _cached(name, make):
    if name not in _made:
        _made[name] = make()
    return _made[name]


_GIVEN = {
    "offset": 1, "length": 2, "n": 3, "pattern": "p", "value": "v", "prefix": "p", "suffix": "s", "by": "b", "separator": "-",
    "index": 1, "item": 1, "other": "b", "format": "%Y", "every": "1d", "time_unit": "us", "time_zone": "UTC", "name": "f",
    "dtype": pl.Int64, "expr": pl.element(), "width": 3, "patterns": ["p"], "json_path": "$.a", "encoding": "hex",
    "predicate": pl.col("a") > 1, "function": len, "window_size": 3, "quantile": 0.5, "dimensions": (2, 3),
}  # fmt: skip


def polars_expressions():
    """What Polars writes of each of its functions, as JSON."""

    def made():
        warnings.simplefilter("ignore")
        column, found = pl.col("i"), []
        for owner in (
            column,
            *(getattr(column, n) for n in ("str", "dt", "list", "arr", "struct", "cat", "bin", "name")),
        ):
            for name in dir(owner):
                if name.startswith("_") or name in ("deserialize", "from_json", "meta"):
                    continue
                try:
                    method = getattr(owner, name)
                    needed = [p for p in inspect.signature(method).parameters.values() if p.default is p.empty]
                    given = [_GIVEN.get(p.name, 1) for p in needed if p.kind in (0, 1)]
                    named = {p.name: _GIVEN.get(p.name, 1) for p in needed if p.kind == 3}
                    expr = method(*given, *(["j"] if any(p.kind == 2 for p in needed) else []), **named)
                    found.append(json.loads(expr.meta.serialize(format="json")))
                except BaseException:  # noqa: BLE001 - not every function takes these arguments
                    continue
        return found

    return _cached("polars", made)
