"""Programs that people have written for Merlin's loaders, with the import lines changed, and what they give."""

import numpy as np
import pandas as pd
import torch

from rowmill import Dataset, Tags
from rowmill.loader.numpy import LoaderBase
from rowmill.loader.torch import DLDataLoader, Loader

FRAME = pd.DataFrame(
    {
        "user": [3, 1, 2, 3, 1],
        "price": [0.5, 1.5, 2.5, 3.5, 4.5],
        "genres": [[1], [2, 3], [], [4, 5, 6], [7]],
        "vector": [[0.1, 0.2], [0.3, 0.4], [0.5, 0.6], [0.7, 0.8], [0.9, 1.0]],
        "weight": [1.0, 2.0, 1.0, 2.0, 1.0],
        "click": [0, 1, 0, 1, 1],
    }
)


def table():
    dataset = Dataset(FRAME, cpu=True)
    dataset.schema["click"] = dataset.schema["click"].with_tags([Tags.TARGET])
    dataset.schema["vector"] = dataset.schema["vector"].with_shape((None, 2))
    return dataset


def test_targets_by_tag_lists_and_declared_shapes():
    with Loader(table(), batch_size=2, shuffle=False) as loader:
        features, click = loader.peek()
    assert click.tolist() == [0, 1] and click.dtype == torch.int64
    assert sorted(features) == ["genres__offsets", "genres__values", "price", "user", "vector", "weight"]
    assert features["genres__values"].tolist() == [1, 2, 3] and features["genres__offsets"].tolist() == [0, 1, 3]
    assert features["vector"].tolist() == [[0.1, 0.2], [0.3, 0.4]] and features["user"].shape == (2,)
    assert [len(click) for _, click in loader] == [2, 2, 1]


def test_next_stop_and_another_epoch():
    loader = Loader(table(), 2, False, None, 1, None, None, True)
    assert [next(loader)[1].tolist() for _ in range(2)] == [[0, 1], [0, 1]]
    assert next(loader, None) is None and len(loader) == 2
    assert next(loader)[1].tolist() == [0, 1]
    loader.stop()


def test_fewer_columns_by_input_schema_and_weights_by_map():
    loader = Loader(table(), batch_size=5, shuffle=False)
    loader.input_schema = loader.input_schema.excluding(["genres", "vector"])

    def with_weight(features, click):
        return features, click, features.pop("weight")

    ((features, click, weight),) = loader.map(with_weight)
    assert sorted(features) == ["price", "user"] and weight.tolist() == [1, 2, 1, 2, 1]
    assert click.tolist() == [0, 1, 0, 1, 1]


def test_a_stock_loader_around_it_with_a_collate_function():
    stock = DLDataLoader(Loader(table(), batch_size=2), collate_fn=lambda batches: batches[0][1], num_workers=0)
    assert [click.tolist() for click in stock] == [[0, 1], [0, 1], [1]] and len(stock) == 3


def test_arrays_of_two_ranks():
    shares = [LoaderBase(table(), batch_size=2, global_size=2, global_rank=rank, device="cpu") for rank in (0, 1)]
    assert [len(share) for share in shares] == [2, 2]
    rows = [features["price"].tolist() for share in shares for features, _ in share]
    assert rows == [[0.5, 1.5], [2.5], [3.5, 4.5], [0.0]] and shares[1].padding == 1
    assert all(isinstance(features["user"], np.ndarray) for features, _ in shares[0])
