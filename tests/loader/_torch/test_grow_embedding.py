"""Embeddings with rows for new categories, in the middle of training."""

import numpy as np
import pytest
import torch

from rowmill.errors import ArgumentError
from rowmill.loader.torch import grow_embedding


def trained(embedding, optimizer, codes, steps=3):
    for _ in range(steps):
        optimizer.zero_grad()
        bags = isinstance(embedding, torch.nn.EmbeddingBag)
        out = embedding(torch.as_tensor(codes)[:, None] if bags else torch.as_tensor(codes))
        out.pow(2).sum().backward()
        optimizer.step()


@pytest.mark.parametrize("kind", [torch.nn.Embedding, torch.nn.EmbeddingBag])
@pytest.mark.parametrize("make", [
    lambda p: torch.optim.SGD(p, 0.1), lambda p: torch.optim.SGD(p, 0.1, momentum=0.9), torch.optim.Adam,
    lambda p: torch.optim.Adam(p, amsgrad=True), torch.optim.Adagrad, torch.optim.RMSprop,
])  # fmt: skip
def test_training_goes_on(kind, make):
    embedding = kind(13, 4)
    optimizer = make(embedding.parameters())
    trained(embedding, optimizer, [3, 4, 5])
    old, parameter = embedding.weight.detach().clone(), embedding.weight
    same = kind(13, 4)
    same.load_state_dict(embedding.state_dict())
    assert grow_embedding(embedding, 20, optimizer=optimizer) is embedding
    assert embedding.weight is parameter and embedding.num_embeddings == 20 == len(embedding.weight)
    assert torch.equal(embedding.weight[:13], old)
    new = embedding.weight.detach()[13:].clone()
    trained(embedding, optimizer, [3, 15])
    assert not torch.equal(embedding.weight[3], old[3]) and not torch.equal(embedding.weight[15], new[2])
    assert torch.equal(embedding.weight[16], new[3])


def test_the_rows_that_were_there_train_as_if_nothing_had_happened():
    embeddings = [torch.nn.Embedding(6, 3) for _ in range(2)]
    embeddings[1].load_state_dict(embeddings[0].state_dict())
    optimizers = [torch.optim.Adam(embedding.parameters()) for embedding in embeddings]
    for embedding, optimizer in zip(embeddings, optimizers, strict=True):
        trained(embedding, optimizer, [1, 2])
    grow_embedding(embeddings[1], 9, optimizer=optimizers[1])
    for embedding, optimizer in zip(embeddings, optimizers, strict=True):
        trained(embedding, optimizer, [1, 5])
    assert torch.equal(embeddings[0].weight, embeddings[1].weight[:6])


def test_new_rows_look_like_the_others_and_are_the_same_everywhere():
    torch.manual_seed(0)
    embedding = torch.nn.Embedding(1_003, 2)
    with torch.no_grad():
        embedding.weight[3:] = torch.randn(1_000, 2) * torch.tensor([0.1, 5.0]) + torch.tensor([3.0, -1.0])
    state = torch.random.get_rng_state()
    copies = [torch.nn.Embedding(1_003, 2, _weight=embedding.weight.detach().clone()) for _ in range(2)]
    rows = [grow_embedding(copy, 3_003).weight.detach()[1_003:].numpy() for copy in copies]
    assert np.array_equal(*rows) and torch.equal(torch.random.get_rng_state(), state)
    assert np.allclose(rows[0].mean(axis=0), [3.0, -1.0], atol=0.5)
    assert np.allclose(rows[0].std(axis=0), [0.1, 5.0], rtol=0.1)
    assert not np.array_equal(rows[0], grow_embedding(embedding, 3_003, seed=1).weight.detach()[1_003:].numpy())


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_dtypes_and_padding(dtype):
    embedding = torch.nn.Embedding(5, 2, padding_idx=0, dtype=dtype)
    old = embedding.weight.detach().clone()
    grow_embedding(embedding, 7)
    assert embedding.weight.dtype == dtype and torch.equal(embedding.weight[:5], old) and not embedding.weight[0].any()
    assert torch.equal(grow_embedding(embedding, 7).weight[:5], old)


def test_what_cannot_grow():
    for rows in (4, -1, 5.5, True, "7"):
        with pytest.raises(ArgumentError, match="5 rows"):
            grow_embedding(torch.nn.Embedding(5, 2), rows)
    with pytest.raises(ArgumentError, match="Linear"):
        grow_embedding(torch.nn.Linear(2, 2), 7)
