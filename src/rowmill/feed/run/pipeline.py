"""Runs reading and packing over threads, with back-pressure: planned chunks in, batches out.

Promises, each with a test in tests/contract:
1. Every planned row is delivered exactly once, in the planned order; threads are gone when the epoch ends.
2. If reading fails, complete batches before it are delivered, then the original exception is raised in the training
   loop, with a note that names file and row group. Any exception type, SystemExit and KeyboardInterrupt included.
3. If the consumer leaves (break, exception, garbage collection, interpreter exit), work is cancelled, threads end,
   nothing is printed.
4. Memory is bounded: at most one slice of a fragment a thread, at most `window_rows` packed rows not yet handed out,
   and at most `variable_bytes` of lists and strings.
5. A batch that the user keeps is never overwritten (see `block.Pool`).

    tasks, in order ──► N threads: read ─► wait for room ─► copy each row to its place in a block
    training loop   ◄── waits for the next chunk to be full, takes views of its blocks, gives the room back

Back-pressure: a thread that has read rows of a chunk waits until the training loop has taken enough older chunks
(`_open`). Room is given in planned order, so the oldest unfinished chunk always has it. Threads wait for nothing else.

All state is guarded by one lock. The training loop waits in a `SimpleQueue` and takes the bare lock only: a signal that
interrupts a `Condition` can leave its lock in the wrong hands.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from time import perf_counter

from rowmill._system.threads import ThreadGroup
from rowmill.errors import ForkedError
from rowmill.feed.memory.block import Batch, Pool
from rowmill.feed.order.plan import Chunk, Span
from rowmill.feed.pack.pack_columns import RowSource
from rowmill.feed.report.run_stats import Stats
from rowmill.feed.run.chunk_buffer import ChunkBuffer, Read, RowPlacement, VariableBytes

THREAD_NAME = "rowmill-feed"
_LOOK = 1.0  # seconds after which a thread that waits for room sees that the feed is closed, if it was not told

Describe = Callable[[int, int, int], str]


@dataclass(frozen=True, slots=True)
class Task:
    """Rows of one fragment to be read at once, and the spans they go to: one, or more where a chunk ends inside it."""

    fragment: int
    start: int
    rows: int
    spans: tuple[tuple[int, Span], ...]  # number of the chunk, span


class Feed:
    """One pass over planned chunks. Iterate once; leaving the loop, in whatever way, ends it."""

    def __init__(
        self,
        chunks: Sequence[Chunk],
        read: Read,
        pool: Pool,
        *,
        threads: int,
        window_rows: int,
        variable_bytes: float = float("inf"),
        describe: Describe,
        stats: Stats,
        first_batch: int = 0,
        ended: Callable[[], None] | None = None,
    ) -> None:
        self._chunks = chunks
        self._first_batch = first_batch
        self._ended = ended  # called when the iteration has ended, in whatever way
        self._tasks = iter(tasks(chunks, resumed=first_batch > 0))
        self._read = read
        self._pool = pool
        self._window_rows = window_rows
        self._variable_bytes = VariableBytes(variable_bytes)
        self._describe = describe
        self._stats = stats
        self._pid = os.getpid()
        self._lock = threading.RLock()
        self._news: SimpleQueue[None] = SimpleQueue()  # a chunk is full, or failed
        self._room = threading.Condition(self._lock)  # a chunk has been handed out
        self._places: dict[int, RowPlacement] = {}  # of chunks that have no room yet
        self._buffers: dict[int, ChunkBuffer] = {}
        self._opened = 0  # chunks that have been given room
        self._open_rows = 0
        self._failure: Failure | None = None
        self._closed = False
        self._threads = ThreadGroup(threads, THREAD_NAME)

    def batches(self) -> Iterator[Batch]:
        """The batches, from `first_batch` on. Threads start with the first `next()` and end with the iteration."""
        try:
            self._stats.begin()
            _running.add(self)
            self._threads.start(self._work)
            for number in range(len(self._chunks)):
                yield from self._batches_of(number)
                self._release(number)
        finally:
            self._closed = True  # before any call, which could be interrupted
            self.close()
            if self._ended is not None:
                self._ended()

    def _batches_of(self, number: int) -> Iterator[Batch]:
        """The batches of a chunk, from `first_batch` on. Raises the failure that made it incomplete."""
        buffer, complete = self._wait(number)
        chunk = self._chunks[number]
        self._stats.ready(-chunk.rows)
        if complete < chunk.batches:
            buffer.finish(complete)
        for index in range(max(0, self._first_batch - chunk.first_batch), complete):
            if not buffer.has(index):
                buffer.refill(index, complete, self._read, self._relieve)
            batch = buffer.batch(index)
            self._stats.count(batch.rows, batch.padding)
            yield batch
            if os.getpid() != self._pid:
                raise ForkedError(
                    "this iterator was started in another process, whose threads a fork does not copy; "
                    "start a new one here with iter(loader)"
                )
        if complete < chunk.batches:
            assert self._failure is not None
            raise self._failure.error

    def close(self) -> None:
        """Cancel what is under way and wait for the threads to end. Harmless when done twice, or in a forked child."""
        _running.discard(self)
        if os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            self._room.notify_all()
        # Garbage collection may call this on a reading thread, which must not wait for itself or its like.
        if not threading.current_thread().name.startswith(THREAD_NAME):
            self._threads.join()
            self._buffers.clear()
            self._places.clear()
        if self._stats.ended is None:
            self._stats.end()

    def _wait(self, number: int) -> tuple[ChunkBuffer, int]:
        """The chunk when it is full, and its number of complete batches: all of them, or those before a failure."""
        started = perf_counter()
        if not self._chunks[number].spans:  # padding only: no task will ever fill it
            self._open(number)
        while (found := self._look(number)) is None:
            with suppress(Empty):
                self._news.get(timeout=1.0)
                continue
            if self._threads.error is not None:
                raise self._threads.error
            if not self._threads.is_alive() and self._look(number) is None:
                raise RuntimeError("all reading threads have died without a word; please report this")
        self._stats.wait(perf_counter() - started)
        return found

    def _look(self, number: int) -> tuple[ChunkBuffer, int] | None:
        with self._lock:
            chunk, buffer, failure = self._chunks[number], self._buffers.get(number), self._failure
            if buffer is not None and buffer.full:
                return buffer, chunk.batches
            if failure is not None and failure.chunk <= number:
                before = failure.at // chunk.batch_rows if chunk.in_order else 0
                if before == 0 or (buffer is not None and buffer.full_before(failure.at)):
                    return buffer or ChunkBuffer(chunk, []), before
            return None

    def _release(self, number: int) -> None:
        with self._lock:
            released = self._buffers.pop(number)
            released.release()
            self._open_rows -= released.chunk.rows
            self._room.notify_all()

    def _relieve(self) -> None:
        """If lists and strings take too much memory, let chunks give up batches, those that are needed last first."""
        while self._variable_bytes.exceeded:
            with self._lock:
                open_chunks = sorted(self._buffers.items(), reverse=True)
            if not any(buffer.shrink() for _, buffer in open_chunks):
                return

    def _work(self) -> None:
        """What a reading thread does."""
        task, at = None, (0, 0)  # what is being read, and the first (chunk, row) that is missing if it fails
        try:
            while (task := self._next_task()) is not None:
                at = (task.spans[0][0], task.spans[0][1].at)
                self._place(task)
                started = perf_counter()
                slices, first = self._read(task.fragment, task.start, task.rows), task.start
                for columns in slices:
                    self._stats.read(perf_counter() - started, columns.rows)
                    for number, row, start, rows in parts(task, first, columns.rows):
                        at = (number, row)
                        if not self._fill(number, row, columns, start, rows):
                            return
                    first += columns.rows
                    for number, row, _, _ in parts(task, first, 1):
                        at = (number, row)
                    del columns  # or there would be two slices in memory while the next is read
                    started = perf_counter()
        except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to the training loop
            self._fail(task, at, error)

    def _fill(self, number: int, at: int, columns: RowSource, start: int, rows: int) -> bool:
        """Put these rows in their places in a chunk. False if the work is cancelled."""
        buffer = self._open(number)
        if buffer is None:
            return False
        started = perf_counter()
        finished = buffer.fill(at, columns, start, rows)
        self._stats.pack(perf_counter() - started)
        if self._variable_bytes.exceeded:
            self._relieve()
        if finished:
            self._stats.ready(buffer.chunk.rows)
        if finished or self._failure is not None:
            self._news.put(None)
        return True

    def _next_task(self) -> Task | None:
        with self._lock:
            task = next(self._tasks, None)
            if task is None or self._closed or (self._failure and self._failure.chunk < task.spans[0][0]):
                return None
            return task

    def _place(self, task: Task) -> None:
        """Work out the places of chunks that begin here: sooner than they are needed, so that no thread has to wait."""
        for number, span in task.spans:
            if span.at == 0:
                with self._lock:
                    if number < self._opened:  # another thread was faster, and has worked them out itself
                        continue
                    places = self._places[number] = RowPlacement(self._chunks[number], self._pool.scratch)
                started = perf_counter()
                places.get()
                self._stats.pack(perf_counter() - started)

    def _open(self, number: int) -> ChunkBuffer | None:
        """The chunk of this number, with blocks to write to, once there is room; None if the work is cancelled."""
        with self._lock:
            while self._opened <= number and not self._closed:
                chunk = self._chunks[self._opened]
                if self._open_rows and self._open_rows + chunk.rows > self._window_rows:
                    started = perf_counter()
                    self._room.wait(_LOOK)
                    self._stats.room(perf_counter() - started)
                    continue
                rows = chunk.batches * chunk.batch_rows
                blocks = [self._pool.take() for _ in range(-(-rows // self._pool.rows))]
                places = self._places.pop(self._opened, None)
                layout, variable_bytes = self._pool.layout, self._variable_bytes
                self._buffers[self._opened] = ChunkBuffer(chunk, blocks, layout, places, variable_bytes)
                self._open_rows += chunk.rows
                self._opened += 1
            return None if self._closed else self._buffers[number]

    def _fail(self, task: Task | None, at: tuple[int, int], error: BaseException) -> None:
        if task is not None:
            error.add_note(f"while reading {self._describe(task.fragment, task.start, task.rows)}")
        with self._lock:
            if self._failure is None or at < (self._failure.chunk, self._failure.at):
                self._failure = Failure(*at, error)
        self._news.put(None)


@dataclass(frozen=True, slots=True)
class Failure:
    """Reading failed at row `at` of this chunk."""

    chunk: int
    at: int
    error: BaseException


def tasks(chunks: Sequence[Chunk], *, resumed: bool = False) -> Iterator[Task]:
    """What to read, in order: neighbouring spans of one fragment, on both sides of a chunk's end, are read at once.

    A resumed epoch reads its first chunk by itself: it is large, and should not wait for rows of the next one as well.
    """
    group: list[tuple[int, Span]] = []
    for number, chunk in enumerate(chunks):
        for span in chunk.spans:
            if group:
                last = group[-1][1]
                apart = last.fragment != span.fragment or last.start + last.rows != span.start
                if apart or (resumed and group[-1][0] == 0 < number):
                    yield _task(group)
                    group = []
            group.append((number, span))
    if group:
        yield _task(group)


def parts(task: Task, first: int, rows: int) -> Iterator[tuple[int, int, int, int]]:
    """Where rows `first` and on of a task's fragment go: for each chunk its number, the row of the chunk they begin at,
    the first of these rows, and how many they are."""
    for number, span in task.spans:
        start, stop = max(first, span.start), min(first + rows, span.start + span.rows)
        if start < stop:
            yield number, span.at + start - span.start, start - first, stop - start


def _task(group: list[tuple[int, Span]]) -> Task:
    start = group[0][1].start
    return Task(group[0][1].fragment, start, sum(span.rows for _, span in group), tuple(group))


_running: set[Feed] = set()


@atexit.register
def _close_all() -> None:
    """Threads inside a decoder must not be there when the interpreter is torn down."""
    for feed in list(_running):
        feed.close()
