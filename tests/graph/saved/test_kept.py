"""What a saved workflow knows of the rows it was fitted on, and what it has kept to go on: written by hand, refused."""

import pytest

from rowmill import Workflow, ops
from rowmill.errors import TransformError, UnknownFunctionError, WorkflowFileError
from tests.graph.saved.test_save import copied, rewritten
from tests.ops.samples import table

FRAME = table()
GRAPH = (["c"] >> ops.Categorify(freq_threshold=2)) + (["s"] >> ops.JoinGroupby(cont_cols=["f"], stats=["sum"]))
KEPT = [
    ["x"],
    {"x": 1},
    {"x": {}},
    {"x": {"sums": [1, "z", "0x0", 0, 0]}},
    {"x": {"sums": [-1, "0x0", "0x0", 0, 0]}},
    {"x": {"sums": [1, "0x0", "0x0", 0]}},
    {"x": {"sums": [1, "0x" + "f" * 5_000, "0x0", 0, 0]}},
    {"x": {"values": [0, None], "numbers": [0, 0, -1]}},
    {"x": {"values": [0, None], "numbers": [0, 0, True]}},
    {"x": {"values": [10**9, None], "numbers": [0, 0, 0]}},
    {"x": {"values": ["0", None], "numbers": [0, 0, 0]}},
    {"x": {"plainly": {"$function": "f"}}},
    {"x": {"sketch": 0, "cut": False}},
    {"x": {"plain": [{"table": 0, "names": ["a"]}], "parts": []}},
    {"x": {"plain": [{"table": 0, "names": ["a", "a"]}], "parts": []}},
    {"x": {"plain": [], "parts": [["x", [{"table": 0, "names": ["a", "b"]}]]]}},
]
LEARNT = [
    ["x"],
    {"parts": [["x", -1, None]], "latest": {}},
    {"parts": [["x", 1, [1]]], "latest": {}},
    {"parts": [["x" * 2_000, 1, None]], "latest": {}},
    {"parts": [], "latest": {"t": {"number": "x"}}},
    {"parts": [], "latest": {"t": {"number": "1" * 100}}},
    {"parts": [], "latest": {"t": 1}},
]


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept") / "w"
    Workflow(GRAPH).fit(FRAME[:100]).save(folder)
    return folder


def learning_node(graph):
    return next(node for node in graph["nodes"] if "learnt" in node)


@pytest.mark.parametrize("kept", KEPT, ids=range(len(KEPT)))
def test_what_is_kept(saved, tmp_path, kept):
    folder = rewritten(copied(saved, tmp_path), lambda graph: learning_node(graph)["learnt"].update(kept=kept))
    with pytest.raises((WorkflowFileError, UnknownFunctionError), match=r"save it again|not given"):
        Workflow.load(folder)


@pytest.mark.parametrize("learnt", LEARNT, ids=range(len(LEARNT)))
def test_the_rows_learnt_from(saved, tmp_path, learnt):
    folder = rewritten(copied(saved, tmp_path), lambda graph: graph.update(learnt=learnt))
    with pytest.raises(WorkflowFileError, match="save it again"):
        Workflow.load(folder)


def test_the_form_of_earlier_versions(saved, tmp_path):
    def earlier(graph, **fields):
        graph.update(fields)
        del graph["learnt"]
        for node in graph["nodes"]:
            node.get("learnt", {}).pop("kept", None)

    old = rewritten(copied(saved, tmp_path), lambda graph: earlier(graph, learnt_from="x", learnt_rows=100))
    workflow = Workflow.load(old)
    assert workflow.transform(FRAME).height == FRAME.height
    with pytest.raises(ValueError, match=r"earlier version.*updatable=True"):
        workflow.update(FRAME)
    for number, wrong in enumerate(({"learnt_from": ["x"]}, {"learnt_from": "x", "learnt_rows": -1})):
        folder = rewritten(copied(saved, tmp_path, f"w{number}"), lambda graph, wrong=wrong: earlier(graph, **wrong))
        with pytest.raises(WorkflowFileError):
            Workflow.load(folder)


def test_tables_in_the_place_of_others(saved, tmp_path):

    def swapped(graph):
        one, two = [node["learnt"]["kept"] for node in graph["nodes"] if "learnt" in node]
        first, second = next(iter(one)), next(iter(two))
        one[first], two[second] = two[second], one[first]

    folder = rewritten(copied(saved, tmp_path), swapped)
    workflow = Workflow.load(folder)
    with pytest.raises(TransformError, match="what was kept"):
        workflow.update(FRAME[100:])
