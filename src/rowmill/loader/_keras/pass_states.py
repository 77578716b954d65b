"""The state machine of a Keras dataset: what Keras calls comes in as events, what the loader has to do goes out.

Keras asks for batches by index, in `fit` in a shuffled order, and looks at the shapes of a batch or two before the
first epoch. Nothing says which of these it does, but the order of its calls. What Keras 3.15 calls (n is a read of
`num_batches`, B and E are on_epoch_begin and on_epoch_end, t is another thread than the one that called `fit`):

    tensorflow    n n 0 1 n E   B nt 3t 0t 4t 1t 2t E   B nt ...        the first two to see the shapes
    torch, jax    n B n 0 n E   B n 3 0 4 1 2 n E       B n ...         the first one to see the shapes
    with steps_per_epoch the indices of one pass go on over several B and E, and TensorFlow asks ahead between them

So a *pass* (one way through the batches of an epoch) begins with the first index after a read of `num_batches` in the
same kind of thread, inside an epoch or in a thread of TensorFlow's. Every other index is random access, which changes
nothing. No Keras, no threads, no batches in here. Called by `keras_loader`, which holds a lock meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum


class Thread(Enum):
    """Which kind of thread calls."""

    MAIN = "the main thread, in which `fit` runs"
    OTHER = "a thread of TensorFlow's, or of the user's"


class Event(Enum):
    """What happens to the dataset. `LENGTH` and `INDEX` come from a thread."""

    LENGTH = "Keras reads num_batches"
    EPOCH_BEGIN = "Keras calls on_epoch_begin"
    EPOCH_END = "Keras calls on_epoch_end"
    INDEX = "a batch is asked for by its index"
    RESUME = "the pass that has just begun is the rest of an epoch, of several batches"
    BATCH = "the pass has given a batch, and has more"
    LAST_BATCH = "the pass has given its last batch"
    FAILURE = "making a batch of the pass failed"
    STOP = "the user ends whatever is under way"


class Progress(Enum):
    """How far the pass is."""

    NO_PASS = "no pass is under way"
    BEGUN = "a pass has given no batch yet"
    PROBED = "a pass has given one of several batches: perhaps it was only Keras's look at the shapes"
    RUNNING = "a pass has given more than one batch, and has more"
    COMPLETE = "a pass has given all its batches, and Keras has not ended its epoch yet"


class Action(Enum):
    """What the loader has to do."""

    NOTHING = "nothing"
    RANDOM_ACCESS = "give the batch of this number, and change nothing"
    BEGIN_PASS = "end the pass under way if there is one, begin a new one, and give its first batch"
    REPEAT_PASS = "begin the pass anew, which has only been looked at, and give its first batch"
    CONTINUE_PASS = "give the next batch of the pass"
    SPAN_EPOCHS = "go on with the pass in another epoch of Keras's"
    END_PASS = "forget the pass"
    REFUSE_EPOCH = "raise: Keras would take later epochs for as short as the rest of the resumed one"


@dataclass(frozen=True)
class PassState:
    """All that decides what the next call means."""

    progress: Progress = Progress.NO_PASS
    owner: Thread = Thread.MAIN  # of the pass: the kind of thread that began it
    in_epoch: bool = False  # between on_epoch_begin and on_epoch_end
    length_read: frozenset[Thread] = frozenset()  # by which threads, since the latest batch of a pass
    is_rest: bool = False  # whether the pass is the rest of a resumed epoch
    spans_epochs: bool = False  # whether Keras takes the pass in several epochs of its own (steps_per_epoch)
    rest_given: bool = False  # whether this `fit` has had the rest of an epoch, and takes its length for every epoch's

    @property
    def is_probe(self) -> bool:
        """Whether the pass may have been only a look at the shapes."""
        return self.progress in (Progress.BEGUN, Progress.PROBED)


_NEXT_PROGRESS = {
    Progress.BEGUN: Progress.PROBED,
    Progress.PROBED: Progress.RUNNING,
    Progress.RUNNING: Progress.RUNNING,
}


def transition(
    state: PassState, event: Event, thread: Thread = Thread.MAIN, *, fit_asks_in_main: bool = True
) -> tuple[PassState, Action]:
    """The state after an event, and what the loader has to do.

    `fit_asks_in_main`: whether Keras asks for batches in the thread that called `fit`, as on all backends but
    TensorFlow. There an index from the main thread is the user's, or a look at the shapes.
    """
    match event:
        case Event.LENGTH:
            begins_fit = thread is Thread.MAIN and not state.in_epoch
            rest_given = state.rest_given and not begins_fit
            return replace(state, length_read=state.length_read | {thread}, rest_given=rest_given), Action.NOTHING
        case Event.EPOCH_BEGIN:
            return _epoch_begin(state)
        case Event.EPOCH_END:
            return _epoch_end(state)
        case Event.INDEX:
            return _index(state, thread, fit_asks_in_main)
        case Event.RESUME:
            return replace(state, is_rest=True), Action.NOTHING
        case Event.BATCH:
            return replace(state, progress=_NEXT_PROGRESS[state.progress]), Action.NOTHING
        case Event.LAST_BATCH:
            return replace(state, progress=Progress.COMPLETE), Action.NOTHING
        case Event.FAILURE:
            return replace(state, progress=Progress.NO_PASS), Action.END_PASS
        case Event.STOP:
            return PassState(), Action.END_PASS


def _epoch_begin(state: PassState) -> tuple[PassState, Action]:
    if state.rest_given:
        return state, Action.REFUSE_EPOCH
    if state.progress in (Progress.RUNNING, Progress.COMPLETE):
        return replace(state, in_epoch=True, spans_epochs=True), Action.SPAN_EPOCHS
    return replace(state, in_epoch=True), Action.NOTHING


def _epoch_end(state: PassState) -> tuple[PassState, Action]:
    # What the main thread has read is used within an epoch, or not at all.
    ended = replace(state, in_epoch=False, length_read=state.length_read - {Thread.MAIN})
    if state.progress is not Progress.COMPLETE:
        return ended, Action.NOTHING
    rest_given = state.is_rest and not state.spans_epochs
    return replace(ended, progress=Progress.NO_PASS, rest_given=rest_given), Action.END_PASS


def _index(state: PassState, thread: Thread, fit_asks_in_main: bool) -> tuple[PassState, Action]:
    if thread is Thread.MAIN and not (state.in_epoch and fit_asks_in_main):
        return state, Action.RANDOM_ACCESS
    if thread in state.length_read:
        begun = replace(state, progress=Progress.BEGUN, owner=thread, length_read=state.length_read - {thread})
        if state.is_probe:
            return begun, Action.REPEAT_PASS
        return replace(begun, is_rest=False, spans_epochs=False), Action.BEGIN_PASS
    if state.progress is not Progress.NO_PASS and state.owner is thread:
        return state, Action.CONTINUE_PASS
    return state, Action.RANDOM_ACCESS
