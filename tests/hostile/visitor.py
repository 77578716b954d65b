"""A process that uses caches in forked children, each of which is ended by an alarm if it hangs.

Orders come as JSON lines, answers go as JSON lines, as in `tests.store.forge`. A child answers with what it was given
(digests of epochs), the warnings, the error that escaped, and by how many MB its memory grew.
"""

import json
import os
import resource
import signal
import sys
import warnings

import numpy as np

import rowmill
from tests.store.common import digest, settle, stream
from tests.store.forge import child

SECONDS = 30


class Squares:
    def __len__(self):
        return 300

    def __getitem__(self, index):
        return np.array([index, index * index]), index % 2


def use(order):
    """What a child does with a cache."""
    what = order.get("what", "epochs")
    if what == "list":
        return [str(entry.path) for entry in rowmill.cache.list(order["cache"])]
    if what == "clear":
        return rowmill.cache.clear(order["cache"])
    if what == "wrap":
        from rowmill.loader.tensordict import dataset_to_tensordict

        wrapped = dataset_to_tensordict(Squares(), folder=order["cache"], fingerprint="1")
        return wrapped[:][0].sum().item() + wrapped.tensordict["0"].sum().item()
    made = stream(order["folder"], order["cache"], **order.get("options", {}))
    found = []
    for _ in range(order.get("epochs", 2)):
        found.append(digest(made.batches()))
        settle(made)
    return found


def run(order):
    signal.alarm(SECONDS)
    os.environ.update(order.get("environ", {}))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    answer = {"found": None, "error": ""}
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        try:
            answer["found"] = use(order)
        except BaseException as error:  # noqa: BLE001 - what escapes is the answer
            answer["error"] = f"{type(error).__name__}: {error}"
    answer["warnings"] = [str(one.message) for one in seen]
    answer["grew"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    return answer


def main():
    if "wrap" in sys.argv:
        import rowmill.loader.tensordict  # noqa: F401 - once, not in every child
    for line in sys.stdin:
        pid, pipe = child(json.loads(line), run)
        text = pipe.read()
        _, status = os.waitpid(pid, 0)
        print(text if status == 0 else json.dumps({"error": f"status {status}", "warnings": [], "grew": 0}), flush=True)


if __name__ == "__main__":
    main()
