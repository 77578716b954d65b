"""The state machine of the Keras datasets: sequences of calls, and what each of them means. No Keras, no threads.

In a sequence n is a read of `num_batches`, B and E are on_epoch_begin and on_epoch_end, i asks for a batch, ! asks for
one that fails, X is `stop()`; a t after n or i is another thread. Below it, in the same order, what is expected: the
action by its letter, and the progress of the pass by its letter.
"""

import pytest

from rowmill.loader._keras.pass_states import Action, Event, PassState, Progress, Thread, transition

ACTIONS = {
    Action.NOTHING: ".",
    Action.RANDOM_ACCESS: "r",  # give a batch by number
    Action.BEGIN_PASS: "b",
    Action.REPEAT_PASS: "a",  # again
    Action.CONTINUE_PASS: "c",
    Action.SPAN_EPOCHS: "s",
    Action.END_PASS: "e",
    Action.REFUSE_EPOCH: "x",
}
PROGRESS = {
    Progress.NO_PASS: "-",
    Progress.BEGUN: "0",
    Progress.PROBED: "1",
    Progress.RUNNING: "+",
    Progress.COMPLETE: "=",
}
EVENTS = {"n": Event.LENGTH, "B": Event.EPOCH_BEGIN, "E": Event.EPOCH_END, "i": Event.INDEX, "X": Event.STOP}
GIVES = (Action.BEGIN_PASS, Action.REPEAT_PASS, Action.CONTINUE_PASS)


def run(calls, *, length, main, resumed=False):
    """The letters of actions and of progress after each call, and the last state. A new index each time."""
    state, given, rest, actions, progress = PassState(), 0, resumed, "", ""
    for call in calls.split():
        thread = Thread.OTHER if call.endswith("t") else Thread.MAIN
        kind = EVENTS.get(call[0], Event.INDEX)
        state, action = transition(state, kind, thread, fit_asks_in_main=main)
        if kind is Event.INDEX and action in GIVES:
            if action is Action.BEGIN_PASS and rest:
                state, _ = transition(state, Event.RESUME)
                rest = False  # the pass after it is a whole one
            given = given + 1 if action is Action.CONTINUE_PASS else 1
            ending = Event.FAILURE if call[0] == "!" else Event.LAST_BATCH if given == length else Event.BATCH
            state, _ = transition(state, ending)
        actions, progress = actions + ACTIONS[action], progress + PROGRESS[state.progress]
    return actions, progress, state


IN_MAIN, IN_THREAD = {"main": True}, {"main": False}
SEQUENCES = {
    "torch and jax: a look at one batch, then two epochs of five": (
        "n B n i n E B n i i i i i n E B n i i i i i n E", IN_MAIN,
        ". . . b . . . . a c c c c . e . . b c c c c . e",
        "- - - 1 1 1 1 1 1 + + + = = - - - 1 + + + = = -",
    ),
    "tensorflow: two looks from the main thread, then two epochs in another": (
        "n n i i n E B nt it it it it it E B nt it it it it it E", IN_THREAD,
        ". . r r . . . .  b  c  c  c  c  e . .  b  c  c  c  c  e",
        "- - - - - - - -  1  +  +  +  =  - - -  1  +  +  +  =  -",
    ),
    "evaluate: one epoch without a look": ("n B n i i i i i E", IN_MAIN, ". . . b c c c c e", "- - - 1 + + + = -"),
    "steps_per_epoch: one pass over three epochs of Keras's": (
        "n B n i i E B i i E B i E", IN_MAIN, ". . . b c . s c c . s c e", "- - - 1 + + + + + + + = -",
    ),
    "steps_per_epoch on tensorflow, which asks ahead between two epochs": (
        "n B nt it it it E it B it E", IN_THREAD, ". . . b c c . c s c e", "- - - 1 + + + + + = -",
    ),
    "steps_per_epoch: the last batch is asked for ahead of the epoch": (
        "n B nt it it it E it it B E", IN_THREAD, ". . . b c c . c c s e", "- - - 1 + + + + = = -",
    ),
    "a user's index between epochs is random access": ("i n i B E i", IN_MAIN, "r . r . . r", "- - - - - -"),
    "a user's index in the middle of a pass of another thread": (
        "B nt it it i n i it it it E", IN_THREAD, ". . b c r . r c c c e", "- - 1 + + + + + + = -",
    ),
    "indices of a thread that has read no length": ("it B it E", IN_THREAD, "r . r .", "- - - -"),
    "an epoch left in its middle is followed by a whole one": (
        "n B n i i i E n B n i i i i i E", IN_MAIN,
        ". . . b c c . . s . b c c c c e",
        "- - - 1 + + + + + + 1 + + + = -",
    ),
    "a batch that fails ends the pass": ("n B n i ! i E", IN_MAIN, ". . . b c r .", "- - - 1 - - -"),
    "a first batch that fails ends the pass": ("n B n ! i n i", IN_MAIN, ". . . b r . b", "- - - - - - 1"),
    "stop ends everything": ("n B n i i X i B i", IN_MAIN, ". . . b c e r . r", "- - - 1 + - - - -"),
    "what the main thread has read is void after an epoch": ("B n E B i", IN_MAIN, ". . . . r", "- - - - -"),
    "what another thread has read is not": ("B nt E B it", IN_THREAD, ". . . . b", "- - - - 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_pass_of_five_batches(name):
    calls, settings, actions, progress = SEQUENCES[name]
    found = run(calls, length=5, **settings)
    assert found[:2] == (actions.replace(" ", ""), progress.replace(" ", ""))


RESUMED = {
    "a second epoch of the same fit is refused": ("n B n i i i i i E B", ". . . b c c c c e x"),
    "another fit, which reads the length outside of an epoch, is not": (
        "n B n i i i i i E n B n i", ". . . b c c c c e . . . b",
    ),
    "nor a fit with steps_per_epoch": ("n B n i i E B i i i E B", ". . . b c . s c c c e ."),
    "a look at the rest is no end of it": ("n B n i n E B n i i i i i E B", ". . . b . . . . a c c c c e x"),
    "a refused epoch stays refused until then": ("n B n i i i i i E B B n B", ". . . b c c c c e x x . ."),
    "stop ends that, too": ("n B n i i i i i E X B", ". . . b c c c c e e ."),
}  # fmt: skip


@pytest.mark.parametrize("name", RESUMED)
def test_the_rest_of_a_resumed_epoch(name):
    calls, actions = RESUMED[name]
    assert run(calls, length=5, main=True, resumed=True)[0] == actions.replace(" ", "")


def test_a_single_batch_is_complete_at_once():
    actions, progress, _ = run("n B n i E B n i E", length=1, main=True)
    assert (actions, progress) == ("...be..be", "---=---=-")


def test_a_pass_belongs_to_the_kind_of_thread_that_began_it():
    state = run("B nt it it", length=5, main=True)[2]
    assert state.owner is Thread.OTHER
    assert transition(state, Event.INDEX, Thread.MAIN)[1] is Action.RANDOM_ACCESS
    assert transition(state, Event.INDEX, Thread.OTHER)[1] is Action.CONTINUE_PASS


def test_random_access_changes_nothing():
    for calls in ("n", "n B nt it", "n B nt it it E"):
        state = run(calls, length=5, main=False)[2]
        after, action = transition(state, Event.INDEX, Thread.MAIN, fit_asks_in_main=False)
        assert action is Action.RANDOM_ACCESS and after == state
