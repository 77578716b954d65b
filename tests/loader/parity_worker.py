"""Prints a digest of the rows that one framework gives, for `test_parity.py`: `parity_worker.py NAME FOLDER`."""

import hashlib
import json
import sys

import numpy as np

import rowmill

COLUMNS, TARGET = ["id", "cat_b", "cat_a", "x2"], "label"
COMMON = {"shuffle": True, "seed": 7, "memory": "200KB"}  # several chunks


def loader_of(name, data, **options):
    """A loader of this framework whose batches hold the same columns."""
    if name.endswith("-sequence"):
        if name == "tensorflow-sequence":
            from rowmill.loader.tensorflow import KerasSequenceLoader
        else:
            from rowmill.loader.keras import KerasSequenceLoader
        return KerasSequenceLoader(
            data, 100, [TARGET], cat_names=["id", "cat_b", "cat_a"], cont_names=["x2"], **COMMON, **options
        )
    if name == "jax":
        from rowmill.loader.jax import Loader

        return Loader(data, 100, columns=COLUMNS, targets=TARGET, last="short", **COMMON, **options)
    if name == "torch":
        from rowmill.loader.torch import Loader
    elif name == "tensorflow":
        from rowmill.loader.tensorflow import Loader
    else:
        from rowmill.loader.keras import Loader
    return Loader(data, 100, columns=COLUMNS, targets=TARGET, **COMMON, **options)


def add(digest, batch, dtypes):
    """The bytes of a batch in the dtypes of the table: what came narrower is widened, exactly or not at all."""
    features, target = batch[:2]
    for column in (*COLUMNS, TARGET):
        array = np.asarray(target if column == TARGET else features[column]).reshape(-1)
        digest.update(array.astype(dtypes[column], casting="safe").tobytes())


def digest_of(batches, dtypes):
    digest, count = hashlib.sha256(), 0
    for batch in batches:
        add(digest, batch, dtypes)
        count += 1
    return [count, digest.hexdigest()]


def digests(name, folder):
    """Two epochs; the rest of an epoch from a saved position; each of two ranks; and batches by number."""
    data = rowmill.Dataset(folder)
    dtypes = {"id": "int64", "cat_b": "int64", "cat_a": "int64", "x2": "float32", "label": "float32"}
    found = {}
    loader = loader_of(name, data)
    for epoch in range(2):
        found[f"epoch {epoch}"] = digest_of(loader, dtypes)
    begun = iter(loader)
    for _ in range(17):
        next(begun)
    state = json.loads(json.dumps(loader.state_dict()))
    begun.close()
    found["state"] = {key: state[key] for key in ("epoch", "batch", "rows", "seed")}
    resumed = loader_of(name, data)
    resumed.load_state_dict(state)
    found["resumed"] = digest_of(resumed, dtypes)
    for rank in range(2):
        found[f"rank {rank}"] = digest_of(loader_of(name, data, global_size=2, global_rank=rank), dtypes)
    if hasattr(loader, "num_batches"):
        indexed = loader_of(name, data)
        assert digest_of((indexed[i] for i in range(len(indexed))), dtypes) == found["epoch 0"]
    return found


if __name__ == "__main__":
    print(json.dumps({name: digests(name, sys.argv[2]) for name in sys.argv[1].split(",")}))
