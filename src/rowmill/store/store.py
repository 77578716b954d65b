"""One stored table: a folder (or memory) in which rows are written once, piece by piece, and then mapped.

While it is being built a store is the folder `<name>.building`, filled by any number of threads and processes; when it
is complete it is `<name>`, and never changes again. Rows are numbered by their place in the table, so a store does not
depend on batch size, seed, ranks, threads or memory. Every piece is summed before its rows are delivered for the first
time in a process. Called by `cache`; `write` and `read` are its two directions.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmill._system.handles import Handle, fcntl, memory_file
from rowmill.errors import DamagedStoreError
from rowmill.feed.memory.block import Array, Block, Memory
from rowmill.store import files, nofollow
from rowmill.store.format import BUILDING, LISTS, MANIFEST, META, StoreShape, checked, key_of, manifest, tensordict_meta
from rowmill.store.lists import Complete, Growing, StoredLists
from rowmill.store.mapped_rows import Gathered, Mapped, summed
from rowmill.store.segments import Segment, Segments, lines, parsed

JOURNAL, CLAIMS = "journal", "claims"
JOURNAL_BYTES = 1 << 20  # of the journal that are read at once
WRITERS = 64  # threads that have memory to pack in kept for them


class Store:
    """A stored table, open. With `folder=None` it is in memory, seen by this process only."""

    def __init__(self, shape: StoreShape, folder: Path | None, handle: Handle | None, *, complete: bool) -> None:
        self.shape, self.folder, self.complete = shape, folder, complete
        self.pieces = Segments()
        self.summed = False  # all of it, in this process
        self._lock = threading.RLock()
        self._verified: set[int] = set()
        self._bad: set[Segment] = set()
        self._claims: set[tuple[int, int]] = set()
        self._handles = [] if handle is None else [handle]  # closed with the store
        self._handle = None if handle is None else handle.fileno()
        self._lists_handle: int | None = None
        self._read_to = 0
        self.scratch = Memory(0 if complete else WRITERS)  # to pack rows in before they are written
        self._open_files()

    @classmethod
    def building(cls, shape: StoreShape, name: Path | None) -> Store | None:
        """The store that is being built under this name, begun if need be; None if it is just completed or removed."""
        if name is None:
            return cls(shape, None, None, complete=False)
        folder = name.with_name(name.name + BUILDING)
        files.begin(folder)
        handle = files.hold(folder)
        if handle is None:
            return None
        try:
            store = cls(shape, folder, handle, complete=False)
        except FileNotFoundError:  # no file can be made in a folder that was just removed
            return None
        return store if files.still_there(folder, handle.fileno()) else None

    @classmethod
    def completed(cls, shape: StoreShape, name: Path) -> Store | None:
        """The complete store of this name; None if there is none. Raises `DamagedStoreError` if it is not whole."""
        handle = files.hold(name)
        return None if handle is None else cls(shape, name, handle, complete=True)

    def _open_files(self) -> None:
        self._files = [(self._file(name), size) for name, size in self.shape.files]
        self._lists: StoredLists
        if self.complete:
            assert self.folder is not None and self._handle is not None
            try:
                text = nofollow.read_file(MANIFEST, self._handle, self.shape.text_bytes)
            except FileNotFoundError as error:
                raise DamagedStoreError("a store without a manifest") from error
            found, counts = checked(text, self.shape, key_of(self.folder.name))
            self.pieces = Segments(found)
            for handle, size in self._files:
                files.check_size(handle, size)
            self._lists = Complete(self.shape, counts, self._file)
        else:
            for handle, size in self._files:
                files.allocate(handle, size)
            self._lists = Growing(self.shape, self._file)
            self._journal = None if self.folder is None else self._file(JOURNAL, os.O_RDWR | os.O_APPEND)
            self._claims_file = None if self.folder is None else self._file(CLAIMS)
            self.refresh()
        self.maps = [files.mapped(handle, size) for handle, size in self._files]
        if self._handle is not None:
            with contextlib.suppress(OSError):
                os.utime(self._handle)  # the oldest is the one that was not opened for the longest time

    def _file(self, name: str, flags: int = os.O_RDWR) -> int:
        if self.folder is None:
            handle = memory_file(name)
            fcntl.fcntl(handle, fcntl.F_SETFL, flags & os.O_APPEND)
        elif self.complete:
            try:
                handle = nofollow.open_file(name.rpartition("/")[2], self._folder_of(name))
            except FileNotFoundError as error:
                raise DamagedStoreError(f"a store without its file {name}") from error
        else:
            mode = 0o600 if name in (JOURNAL, CLAIMS) else 0o644  # a lock on these keeps writers waiting
            handle = files.create(name.rpartition("/")[2], self._folder_of(name), flags, mode)
        return self._kept_open(handle)

    def _kept_open(self, handle: Handle) -> int:
        self._handles.append(handle)
        return handle.fileno()

    def _folder_of(self, name: str) -> int:
        """The open folder of a file: the store's own, or that of its lists."""
        assert self._handle is not None
        if "/" not in name:
            return self._handle
        if self._lists_handle is None:
            if not self.complete:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(LISTS, 0o755, dir_fd=self._handle)
            try:
                self._lists_handle = self._kept_open(nofollow.open_folder(LISTS, self._handle))
            except (NotADirectoryError, PermissionError) as error:
                raise DamagedStoreError(error.strerror) from error
        return self._lists_handle

    @property
    def here(self) -> bool:
        """Whether the folder is still where it was opened."""
        return self.folder is not None and self._handle is not None and files.still_there(self.folder, self._handle)

    def close(self) -> None:
        """Let go of the folder. Maps that are in use stay."""
        for handle in self._handles:
            handle.close()

    @property
    def full(self) -> bool:
        """Whether all rows are there."""
        return self.pieces.rows == self.shape.rows

    def refresh(self) -> None:
        """Learn of the pieces that other processes have written."""
        if self.complete or self._journal is None:
            return
        with self._lock:
            while self._read_to < self.shape.text_bytes:
                text = os.pread(self._journal, JOURNAL_BYTES, self._read_to)
                for piece in parsed(text, self.shape.rows, len(self.shape.lists)):
                    if piece not in self.pieces and piece not in self._bad:
                        self.pieces.add(piece)
                end = text.rfind(b"\n")  # the last line may be half a line: it is read again
                if len(text) < JOURNAL_BYTES:
                    self._read_to += max(0, end)
                    return
                self._read_to += end if end > 0 else len(text)  # no line is as long as that

    def missing(self, first: int, rows: int) -> list[tuple[int, int]]:
        with self._lock:
            gaps = self.pieces.missing(first, rows)
            if gaps and not self.complete:
                self.refresh()
                gaps = self.pieces.missing(first, rows)
            return gaps

    def runs(self, first: int, rows: int) -> Iterator[Mapped]:
        """These rows, ready to be dealt: at once, or a piece at a time where lists are not mapped yet.

        Nothing if any is missing. They end early where a piece turns out to be bad.
        """
        with self._lock:  # or another thread might discard a bad piece between the two
            if self.missing(first, rows):
                return
            pieces = self.pieces.over(first, rows)
        parts = [(first, rows)]
        if self.shape.lists and not self.complete:
            parts = [(max(p.start, first), min(p.stop, first + rows) - max(p.start, first)) for p in pieces]
        for part in parts:
            found = self.columns(*part)
            if found is None:
                return
            yield found

    def columns(self, first: int, rows: int) -> Mapped | None:
        """These rows, ready to be dealt; None if any is missing. Raises `DamagedStoreError` if any has changed."""
        self._check_sizes()
        if self.missing(first, rows) or not self.verify(first, rows):
            return None
        matrices = [matrix[first : first + rows] for matrix in self._matrices]
        with self._lock:
            pieces = self.pieces.over(first, rows)
        return Mapped(self.shape.layout, rows, matrices, self._lists.frame(pieces, first, rows))

    def gathered(self, rows: NDArray[np.int64]) -> Gathered:
        """Rows by number, in any order. The store must be complete, and verified."""
        self._check_sizes()
        return Gathered(self.shape.layout, rows, self._matrices, self._lists.gather(rows))

    @property
    def _matrices(self) -> list[Array]:
        """The maps as row-major matrices."""
        return [
            held.view(matrix.dtype).reshape(self.shape.rows, matrix.width)
            for held, matrix in zip(self.maps, self.shape.layout.matrices, strict=True)
        ]

    def verify(self, first: int, rows: int) -> bool:
        """Sum what has not been summed yet. False if a piece of an unfinished store was bad, and is now missing."""
        with self._lock:
            doubtful = [piece for piece in self.pieces.over(first, rows) if piece.start not in self._verified]
        for piece in doubtful:
            if self._sum(piece) == piece.checksum:
                self._verified.add(piece.start)
                continue
            if self.complete:
                raise DamagedStoreError(f"rows {piece.start} to {piece.stop} are not those that were written")
            with self._lock:
                self.pieces.discard(piece)
                self._bad.add(piece)
            return False
        return True

    def _sum(self, piece: Segment) -> int | None:
        arrays: list[Array] = []
        for held, matrix in zip(self.maps, self.shape.layout.matrices, strict=True):
            arrays.append(held[piece.start * matrix.row_bytes : piece.stop * matrix.row_bytes])
        lists = self._lists.arrays(piece)
        return None if lists is None else summed([*arrays, *lists])

    def _check_sizes(self) -> None:
        """A map of a file that was cut short kills the process when it is read."""
        for handle, size in self._files:
            if os.fstat(handle).st_size < size:
                raise DamagedStoreError(f"a file of {os.fstat(handle).st_size} bytes; wanted {size}")

    @contextmanager
    def claim(self, first: int, rows: int) -> Iterator[list[tuple[int, int]]]:
        """The runs of these rows that are missing and that nobody else is writing; ours for the time of the block."""
        with ExitStack() as held:
            own = [gap for gap in self.missing(first, rows) if held.enter_context(self._claimed(*gap))]
            yield [gap for start, count in own for gap in self.missing(start, count)]

    @contextmanager
    def _claimed(self, first: int, rows: int) -> Iterator[bool]:
        with self._lock:
            free = not any(a < first + rows and first < a + n for a, n in self._claims)
            if free:
                self._claims.add((first, rows))
        if not free:
            yield False
            return
        try:
            if self._claims_file is None:
                yield True
            else:
                with files.claimed(self._claims_file, first, rows) as got:
                    yield got
        finally:
            with self._lock:
                self._claims.discard((first, rows))

    def room(self) -> NDArray[np.uint8]:
        """Memory to pack rows in, at most a piece of them."""
        return self.scratch.take(Block.nbytes(self.shape.layout, self.shape.piece_rows))

    def private_maps(self) -> list[NDArray[np.uint8]]:
        """Each matrix's bytes, mapped anew so that writes stay with this process and reach no file."""
        return [files.mapped(handle, size, private=True) for handle, size in self._files]

    def write(self, start: int, matrices: Sequence[Array]) -> int:
        """Write rows `start` and on to the files of their matrices. They are claimed by the caller. Returns their
        checksum."""
        for number, (matrix, rows) in enumerate(zip(self.shape.layout.matrices, matrices, strict=True)):
            self.write_bytes(number, rows, start * matrix.row_bytes)
        return summed(matrices)

    def write_bytes(self, number: int, data: Array, offset: int, at_once: int = files.AT_ONCE) -> None:
        """Write bytes to the file of a matrix, a few megabytes at a time."""
        files.write_at(self._files[number][0], data, offset, at_once)

    def piece(self, start: int, rows: int, checksum: int, lists: Sequence[tuple[Array, Array]] = ()) -> Segment:
        """What to record of rows once their matrices, which have this checksum, are written. Lists are written here."""
        assert isinstance(self._lists, Growing)
        places = self._lists.write(start, lists)
        checksum = summed((array for values, lengths in lists for array in (lengths, values)), checksum)
        return Segment(start, rows, checksum, places)

    def record(self, pieces: Sequence[Segment]) -> None:
        """Make written pieces part of the store."""
        if not pieces:
            return
        if self._journal is not None:
            if os.fstat(self._journal).st_size > self.shape.text_bytes:
                raise OSError(errno.EFBIG, f"the journal has more than {self.shape.text_bytes} bytes")
            files.append(self._journal, lines(pieces))
        with self._lock:
            for piece in pieces:
                self._bad.discard(piece)
                self._verified.add(piece.start)
                self.pieces.add(piece)

    def finish(self, about: dict[str, Any]) -> None:
        """Complete a store whose rows are all there: put lists in order, write to disk, give the folder its name."""
        with self._claimed(files.FINISH, 1) as own:
            if not own or self.complete or not self.full:
                return
            if self.folder is None:
                self._lists = self._ordered_lists()
                self.complete, self.scratch = True, Memory(0)
                return
            if not self.here:
                return  # another process was faster
            self._publish(self.folder, about)

    def _ordered_lists(self) -> Complete:
        assert isinstance(self._lists, Growing)
        made: dict[str, int] = {}
        counts = self._lists.put_in_order(self.pieces, made, self._file)
        return Complete(self.shape, counts, made.__getitem__)

    def _publish(self, folder: Path, about: dict[str, Any]) -> None:
        rows = self.shape.rows
        lists = self._ordered_lists()
        for handle, _ in self._files:
            files.sync(handle)
        shapes = {
            name: (matrix.dtype, [rows, matrix.width])
            for name, matrix in zip(self.shape.names, self.shape.layout.matrices, strict=True)
        }
        own = self._folder_of("")
        files.write_whole(META, own, _json(tensordict_meta(shapes, [rows])))
        if self.shape.lists:
            lists.sync()
            beside = self._folder_of(f"{LISTS}/")
            files.write_whole(META, beside, _json(tensordict_meta(lists.shapes(), [])))
            files.sync(beside)
        content = manifest(self.shape, self.pieces, lists.counts, about)
        files.write_whole(MANIFEST, own, _json(content))
        files.sync(own)
        files.publish(folder, folder.with_name(folder.name.removesuffix(BUILDING)))
        if self.shape.lists:
            for name in files.names_in(beside):
                if name.endswith(".part"):
                    os.unlink(name, dir_fd=beside)


def _json(content: dict[str, Any]) -> bytes:
    return json.dumps(content).encode()
