"""Feature operators, fitted once and used everywhere: on a dataset, on a frame, on one row, inside a loader.

A graph of operators comes in. `fit` lets them learn, phase by phase, on an engine; `transform` compiles the graph to a
Polars query and runs it where the rows are: lazily for a dataset, at once for anything in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike
from typing import Any

from rowmill._system.display import Displayed, DisplayRows
from rowmill._system.forked import check_fork
from rowmill._system.interrupts import interruptible
from rowmill._system.sizes import cores, parse_bytes, parse_memory
from rowmill._workflow.learning import Learning, in_types_of
from rowmill.dataset import Dataset
from rowmill.engines.engine import Engine
from rowmill.engines.local import LocalEngine
from rowmill.errors import ArgumentError, NotFittedError
from rowmill.graph.display.picture import Picture
from rowmill.graph.display.steps_text import steps_text
from rowmill.graph.execution.fitted_rows import first_learnt_row
from rowmill.graph.execution.learnt_rows import LearntRows, note_rows
from rowmill.graph.execution.row_types import as_rows
from rowmill.graph.execution.transform import Transformation, missing
from rowmill.graph.node import Apply, Named, Node, Select, as_node, walk
from rowmill.graph.operator import Fitted, StatOperator
from rowmill.graph.resolve import Resolved
from rowmill.graph.saved.folder import DEFAULT_LIMIT
from rowmill.schema import Schema
from rowmill.sources.files.paths import local_path
from rowmill.sources.frames.frame_source import FrameSource
from rowmill.sources.source import Source
from rowmill.sources.wrap.transformed import SpooledSource, TransformedSource
from rowmill.utils import global_dask_client
from rowmill.whole_partitions import whole_partitions


class Workflow(Displayed):
    """A graph of operators and what they have learnt.

    >>> workflow = Workflow((["C1", "C2"] >> Categorify()) + (["I1"] >> FillMissing() >> Normalize()) + ["label"])
    >>> workflow.fit(train).transform(valid).to_parquet("valid")

    `client`: a Dask client; fitting and writing then run on its cluster. By default the one of
    `rowmill.utils.set_dask_client`, if there is one.
    """

    def __init__(self, output_node: Any, client: Any = None) -> None:
        self.output_node: Node = as_node(output_node)
        if isinstance(self.output_node, Select) and not self.output_node.label:
            raise ArgumentError("a Workflow of no columns; wanted a graph such as ['a'] >> Normalize()")
        self.client = client
        self._fitted: dict[int, Fitted] = {}
        self._removed: frozenset[str] = frozenset()
        self._learnt = LearntRows()
        self._known: Transformation | None = None

    def _display(self) -> tuple[str, DisplayRows]:
        state, known = "fitted" if self.fitted else "not fitted", self._known
        counts = "" if known is None else f", {len(known.input_schema)} columns in, {len(known.output_schema)} out"
        return f"Workflow: {state}{counts}", [(line,) for line in steps_text(self.output_node)]

    @interruptible
    def fit_schema(self, schema: Schema) -> Workflow:
        """Check the graph against a table with these columns, and learn which columns come out."""
        self._resolve(schema)
        return self

    def _resolve(self, schema: Schema) -> Transformation:
        self._known = Transformation(Resolved(self.output_node, schema, self._fitted, self._removed))
        self._known.resolved.note()
        return self._known

    def _is_known(self) -> bool:
        """Whether the types of the table's columns are known, not only their names (`fit_schema(Schema(["x"]))`)."""
        return self._known is not None and all(c.dtype != "unknown" for c in self._known.input_schema)

    def _transformation(self) -> Transformation:
        if self._known is None:
            raise NotFittedError("the workflow has not seen a table yet; call workflow.fit(dataset) first")
        return self._known

    @property
    def input_schema(self) -> Schema | None:
        """The columns of the table that the graph selects; None before it has seen a table."""
        return None if self._known is None else self._known.input_schema

    @property
    def output_schema(self) -> Schema:
        """The columns that come out, with their tags, cardinalities and sizes."""
        return self._transformation().output_schema

    @property
    def output_dtypes(self) -> dict[str, str]:
        return {column.name: column.dtype for column in self.output_schema}

    @property
    def input_dtypes(self) -> dict[str, str]:
        return {column.name: column.dtype for column in self._transformation().input_schema}

    @property
    def graph(self) -> Picture:
        """The picture of the graph; shows itself in a notebook."""
        return Picture(self.output_node)

    @property
    def fitted(self) -> bool:
        """Whether every operator that has to learn has done so."""
        return all(
            number in self._fitted
            for number, node in enumerate(walk(self.output_node))
            if isinstance(node, Apply) and isinstance(node.operator, StatOperator)
        )

    @interruptible
    def fit(
        self,
        dataset: Any,
        y: Any = None,
        *,
        client: Any = None,
        memory: int | float | str = "1GB",
        threads: int | None = None,
        progress: bool | None = None,
        updatable: bool = False,
    ) -> Workflow:
        """Let the operators learn from a dataset (or a frame): one pass over it for each phase.

        `client`: a Dask client to do it on. `memory`: half of it is for fragments in flight, half for vocabularies that
        are being counted, which go to disk beyond that; the finished ones come on top. `updatable`: what `update` needs
        is kept even if that is large, such as the counts of very many values that are too rare for a code. `y` means
        nothing: pipelines of scikit-learn pass it.
        """
        check_fork()
        data = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        schema = data.described()
        self.clear_stats()
        self._resolve(schema)
        self._remember(self._learning(client, memory, threads, progress, updatable).fit(data, schema), schema)
        if self._fitted:
            self._learnt = note_rows(data.source, data.cuts)
        return self

    @interruptible
    def update(
        self,
        dataset: Any,
        *,
        client: Any = None,
        memory: int | float | str = "1GB",
        threads: int | None = None,
        progress: bool | None = None,
        updatable: bool = False,
        strict: bool = True,
    ) -> dict[str, tuple[int, int]]:
        """Let a fitted workflow learn from more rows, such as those of the next day, in place.

        Statistics are then those of `fit` on all rows, to the bit. Codes of categories stay as they are, and new
        categories get codes after them, most frequent first. Returns the cardinality of each categorical column before
        and after, for `grow_embedding`. The other arguments are those of `fit`. Where operators learn from what others
        have learnt, and that has changed, nothing is changed and an error says so; `strict=False` goes on from what
        they saw then.
        """
        check_fork()
        self._check_fitted()
        known, first_row = self._transformation(), self._learnt.rows
        if self._fitted and first_row is None:
            raise ArgumentError("the workflow was saved by an earlier version, without what update needs; fit it again")
        data = dataset if isinstance(dataset, Dataset) else Dataset(dataset)
        data = in_types_of(known.input_schema, data)
        sizes = _cardinalities(self.output_schema)
        learning = self._learning(client, memory, threads, progress, updatable)
        root = known.resolved.root
        self._remember(learning.go_on(data, root, self._fitted, first_row or 0, strict=strict), root)
        if self._fitted:
            self._learnt = self._learnt + note_rows(data.source, data.cuts)
        return {name: (old, _cardinalities(self.output_schema)[name]) for name, old in sizes.items()}

    def _learning(
        self, client: Any, memory: int | float | str, threads: int | None, progress: bool | None, updatable: bool
    ) -> Learning:
        half, workers = parse_memory(memory) // 2, max(1, threads or cores())
        return Learning(self.output_node, self._engine(client, workers, half), half, workers, updatable, progress)

    def _remember(self, fitted: dict[int, Fitted], schema: Schema) -> None:
        """Take what the operators have learnt."""
        self._fitted = fitted
        for number, node in enumerate(walk(self.output_node)):
            if isinstance(node, Apply) and number in fitted:
                node.operator.remember(fitted[number])
        self._resolve(schema)

    def _engine(self, client: Any, threads: int, memory: int) -> Engine:
        client = client or self.client or global_dask_client()
        if client is None:
            return LocalEngine(threads, memory)
        from rowmill.engines.dask import DaskEngine

        if getattr(client, "status", None) != "running":
            raise ArgumentError(f"client={client!r}; wanted a running dask.distributed.Client")
        return DaskEngine(client)

    def clear_stats(self) -> None:
        """Forget what has been learnt."""
        self._fitted = {}
        self._learnt = LearntRows()

    @interruptible
    def fit_transform(self, dataset: Any, y: Any = None, **options: Any) -> Any:
        """Fit, and transform the fitted data: out of fold where operators have folds. `y` means nothing."""
        self.fit(dataset, **options)
        return self.transform(dataset, fitted_rows=True)

    @interruptible
    def transform(self, data: Any, *, fitted_rows: bool | None = None, folds: bool | None = None) -> Any:
        """What the operators make of `data`.

        A `Dataset`, or the path of files, gives a lazy `Dataset`. Rows in memory (a pandas, Polars or Arrow frame, a
        dict of columns or of the values of one row, a list of such dicts) give the same kind, at once. `fitted_rows`:
        whether these are the rows that the workflow was fitted on, of which target encodings leave out a row's own
        fold. By default they are recognised: the fitted dataset, also in other partitions or with `dtypes=`, and rows
        in memory by their values. Data with as many rows that are not recognised raise a `FittedRowsWarning`.
        `folds` is the older name of `fitted_rows`.
        """
        check_fork()
        fitted_rows = folds if fitted_rows is None else fitted_rows
        if isinstance(data, str | PathLike) or (isinstance(data, list | tuple) and data and _are_paths(data)):
            data = Dataset(data)
        if isinstance(data, Dataset):
            return self._transform_dataset(data, fitted_rows)
        self._check_fitted()
        rows = as_rows(data, self.input_schema)
        known = self._known if self._is_known() else self._resolve(Dataset(rows.frame).schema)
        assert known is not None
        first = None
        if fitted_rows or (fitted_rows is None and (rows.frame.height > 1 or not isinstance(data, Mapping | list))):
            first = first_learnt_row(self._learnt, known, FrameSource(rows.frame), fitted_rows, rows.frame)
        step = known.step(training=first is not None)
        return rows.form(step.run(rows.frame, first or 0), same_rows=step.program.row_for_row)

    def _transform_dataset(self, data: Dataset, folds: bool | None) -> Dataset:
        self._check_fitted()
        known = self._known if self._fitted and self._known else self._resolve(data.described())
        frame = data.source.frame if isinstance(data.source, FrameSource) else None
        for cut in data.cuts:
            self._learnt.check_cut(cut)
        first = first_learnt_row(self._learnt, known, data.source, folds, frame)
        training = first is not None
        whole = known.step(training=training)
        for name in whole.inputs:
            if name not in data.schema:
                raise missing(name, data.columns)
        if not whole.program.rowwise:
            data = whole_partitions(data, whole.inputs, self.output_node)
        (letters, doubt), prepare = self._identity(), partial(known.step, training=training)
        made_by = (prepare, known.output_schema, f"{letters} {training}" + (f" {first}" if first else ""), doubt)
        source: Source
        if whole.program.row_for_row:
            source = TransformedSource(data.source, *made_by, first or 0)
        else:
            source = SpooledSource(data.source, data.fragments, *made_by)
        made = Dataset(source, schema=known.output_schema, base_dataset=data.base_dataset)
        made.part_bytes, made.client = data.part_bytes if whole.program.row_for_row else None, self.client
        made.cuts = data.cuts
        return made

    def _check_fitted(self) -> None:
        if not self.fitted:
            raise NotFittedError(
                "the workflow has operators that learn, and has not been fitted; call fit(dataset) first"
            )

    @interruptible
    def remove_inputs(self, input_cols: Iterable[str]) -> Workflow:
        """Leave out these columns of the table and everything that is made of them: the label, when serving."""
        self._removed = self._removed | frozenset([input_cols] if isinstance(input_cols, str) else input_cols)
        if self._known is not None:
            self._resolve(self._known.resolved.root)
        return self

    @interruptible
    def get_subworkflow(self, name: str) -> Workflow:
        """The part of the graph that was named with `Subgraph(name, ...)`, with what its operators have learnt."""
        for node in walk(self.output_node):
            if isinstance(node, Named) and node.name == name:
                part = Workflow(node.upstream[0], self.client)
                old = {id(n): number for number, n in enumerate(walk(self.output_node))}
                numbers = {old[id(n)]: number for number, n in enumerate(walk(part.output_node))}
                part._fitted = {numbers[n]: state for n, state in self._fitted.items() if n in numbers}
                part._learnt = self._learnt
                part._removed = self._removed
                if self._known is not None:
                    part._resolve(self._known.resolved.root)
                return part
        known = [node.name for node in walk(self.output_node) if isinstance(node, Named)]
        raise ArgumentError(f"No subgraph named {name!r}; there are {known}; name one with Subgraph(name, node)")

    @property
    def subworkflows(self) -> list[str]:
        return [node.name for node in walk(self.output_node) if isinstance(node, Named)]

    def fingerprint(self) -> str:
        """Some letters that change when a setting, a function or anything learnt does."""
        return self._identity()[0]

    def _identity(self) -> tuple[str, str]:
        """The fingerprint, and what it cannot tell of a function."""
        from rowmill.graph.saved.save import fingerprint

        return fingerprint(self.output_node, self._fitted, self._removed)

    @interruptible
    def save(self, path: str | PathLike[str], modules_byvalue: Any = None) -> None:
        """Write the workflow to a local folder: JSON and Parquet, nothing that could run. The folder can be moved.

        `modules_byvalue`, by which NVTabular saves code, is refused.
        """
        from rowmill.graph.saved.save import save

        if modules_byvalue is not None:
            raise ArgumentError(
                "modules_byvalue= asks for code in the saved workflow, and none is saved; leave it out, and pass "
                "functions by name: Workflow.load(path, functions={...})"
            )
        root = None if self._known is None else self._known.resolved.root
        save(local_path(path, "path"), self.output_node, self._fitted, self._removed, root, self._learnt)

    @classmethod
    @interruptible
    def load(
        cls,
        path: str | PathLike[str],
        client: Any = None,
        *,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        max_bytes: int | str = DEFAULT_LIMIT,
    ) -> Workflow:
        """A workflow from a local folder that `save` wrote. Loading runs nothing of the folder, and reads nothing else.

        `functions`: the functions that its operators use, by the name they were saved under. `max_bytes`: how much
        memory its tables and settings may take; sizes are checked before anything is parsed or decompressed.
        """
        from rowmill.graph.saved.load import load, loading
        from rowmill.ops import OPERATORS

        path = local_path(path, "path")
        loaded = load(path, OPERATORS, functions or {}, parse_bytes(max_bytes, "max_bytes"))
        workflow = cls(loaded.output, client)
        workflow._fitted, workflow._removed = loaded.fitted, loaded.removed
        workflow._learnt = loaded.learnt
        if loaded.root is not None:
            with loading(path):
                workflow._resolve(loaded.root).step()
        return workflow


def _cardinalities(schema: Schema) -> dict[str, int]:
    """The cardinality of each column that has one."""
    sizes = {column.name: column.properties.get("embedding_sizes", {}).get("cardinality") for column in schema}
    return {name: size for name, size in sizes.items() if size is not None}


def _are_paths(given: Sequence[Any]) -> bool:
    return all(isinstance(each, str | PathLike) for each in given)
