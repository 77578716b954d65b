"""Datasets wrapped as memory-mapped tensors: same items, clear errors that name the index, resumed and used again."""

import pickle
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from rowmill import Dataset as Table
from rowmill.errors import ArgumentError, ItemError
from rowmill.loader.tensordict import Collate_Fn, dataset_to_tensordict, put_batch_on_device
from rowmill.loader.torch import Loader
from tests.store.common import lists_folder


class Images(Dataset):
    """Items `(x, y)`, which count how often they are fetched."""

    def __init__(self, rows=50, seed=0):
        self.x = torch.rand(rows, 3, 4, generator=torch.Generator().manual_seed(seed))
        self.fetched = 0

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        self.fetched += 1
        return self.x[index], index % 10


class Nested(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, i):
        return {
            "image": torch.full((2, 2), i, dtype=torch.float32),
            "meta": {"id": i, "pair": (np.float32(i / 2), np.arange(3) + i)},
            "flag": i % 2 == 0,
            "half": torch.tensor([i, i + 1], dtype=torch.bfloat16),
            "weight": float(i),
        }


class Odd(Images):
    """Wrong at index 7, in one of several ways."""

    def __init__(self, way):
        super().__init__()
        self.way = way

    def __getitem__(self, index):
        x, y = super().__getitem__(index)
        if index != 7:
            return x, y
        if self.way == "fails":
            raise KeyError("no such image")
        if self.way == "ends":
            raise IndexError("list index out of range")
        return {"shape": (x[:2], y), "dtype": (x.double(), y), "less": (x,), "more": (x, y, 1)}[self.way]


def test_items_and_batches_are_those_of_the_dataset(tmp_path):
    ds = Images()
    mapped = dataset_to_tensordict(ds=ds, DEVICE="cpu", folder=tmp_path, batch_size=7)
    assert len(mapped) == 50
    for index in (0, 13, 49, -1):
        x, y = mapped[index]
        assert torch.equal(x, ds.x[index]) and y == (index % 50) % 10
    loader = DataLoader(mapped, batch_size=8, shuffle=True, collate_fn=Collate_Fn(batch_size=8, DEVICE="cpu"))
    seen = 0
    for x, y in loader:
        same = (x[:, None] == ds.x[None]).flatten(2).all(2).nonzero()
        assert torch.equal(same[:, 1] % 10, y)
        seen += len(y)
    assert seen == 50
    with pytest.raises(IndexError):
        mapped[50]


def test_names_and_structure_are_kept(tmp_path):
    mapped = dataset_to_tensordict(Nested(), folder=tmp_path)
    for i in (0, 3, 19):
        item, wanted = mapped[i], Nested()[i]
        assert torch.equal(item["image"], wanted["image"]) and torch.equal(item["half"], wanted["half"])
        assert item["half"].dtype == torch.bfloat16 and item["flag"].dtype == torch.bool
        assert item["meta"]["id"] == i and item["meta"]["pair"][0] == i / 2
        assert item["meta"]["pair"][1].tolist() == [i, i + 1, i + 2]
        assert item["weight"].dtype == torch.float64
    whole = mapped.tensordict
    assert whole.batch_size == (20,) and whole["meta", "pair", "1"].shape == (20, 3)
    assert whole["meta", "id"].tolist() == list(range(20))
    whole["meta", "id"][0] = 77  # a private copy of the page: the store stays as it is
    assert mapped[0]["meta"]["id"] == 0
    assert mapped[[2, 1]]["meta"]["id"].tolist() == [2, 1]


class Pair(NamedTuple):
    x: torch.Tensor
    y: int


class Made(Dataset):
    """Items that a function makes."""

    def __init__(self, make, items=40):
        self.make, self.items = make, items

    def __len__(self):
        return self.items

    def __getitem__(self, index):
        return self.make(index)


def test_a_namedtuple_keeps_its_names(tmp_path):
    mapped = dataset_to_tensordict(Made(lambda i: Pair(torch.full((2,), i), -i)), folder=tmp_path, progress=False)
    assert mapped[3]._fields == ("x", "y") and mapped[3].x.tolist() == [3, 3] and mapped[3].y == -3
    collate = Collate_Fn(batch_size=8, transform=lambda x: x + 1)
    batch = next(iter(DataLoader(mapped, 8, collate_fn=collate)))
    assert isinstance(batch, Pair) and batch.x[:, 0].tolist() == list(range(1, 9))
    assert sorted(mapped.tensordict.keys()) == ["x", "y"]


def test_leaves_that_are_written_alike_are_told_apart(tmp_path):
    alike = Made(lambda i: {"a.b": torch.tensor([i]), "a": {"b": torch.tensor([-i])}})
    mapped = dataset_to_tensordict(alike, folder=tmp_path, progress=False)
    batch = mapped[[3, 1]]
    assert batch["a.b"].tolist() == [[3], [1]] and batch["a"]["b"].tolist() == [[-3], [-1]]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (torch.zeros(0), r"no value at '0', shape \(0,\)"),
        (torch.ones(2).to(torch.float8_e4m3fn), "a tensor of torch.float8_e4m3fn, torch.strided at '0'.*convert it"),
        (torch.eye(2).to_sparse(), "torch.sparse_coo at '0'"),
        ("text", "holds str at '0'"),
    ],
    ids=["empty", "float8", "sparse", "text"],
)
def test_what_cannot_be_mapped_is_named(tmp_path, value, message):
    with pytest.raises(ItemError, match=message):
        dataset_to_tensordict(Made(lambda i: (value, i)), folder=tmp_path, progress=False)


def test_tensordict_reads_the_folder(tmp_path):
    from tensordict import TensorDict

    ds = Images()
    folder = dataset_to_tensordict(ds, folder=tmp_path).folder
    assert torch.equal(TensorDict.load_memmap(folder)["leaf_0"].reshape(50, 3, 4), ds.x)


def test_an_unchanged_dataset_is_not_wrapped_twice(tmp_path):
    first, again, changed = Images(500), Images(500), Images(500, seed=1)
    dataset_to_tensordict(first, folder=tmp_path)
    assert first.fetched >= 500
    dataset_to_tensordict(again, folder=tmp_path)
    assert again.fetched < 50
    assert torch.equal(dataset_to_tensordict(changed, folder=tmp_path)[499][0], changed.x[499])
    said = Images(500, seed=2)
    dataset_to_tensordict(said, folder=tmp_path, fingerprint="v1")
    dataset_to_tensordict(later := Images(500, seed=2), folder=tmp_path, fingerprint="v1")
    assert later.fetched == 1


def test_an_interrupted_wrapping_goes_on(tmp_path):
    class Breaks(Images):
        broken = True

        def __getitem__(self, index):
            if self.broken and index == 300:
                raise KeyboardInterrupt
            return super().__getitem__(index)

    ds = Breaks(500)
    with pytest.raises(KeyboardInterrupt):
        dataset_to_tensordict(ds, folder=tmp_path, batch_size=50, fingerprint="x")
    ds.broken, ds.fetched = False, 0
    mapped = dataset_to_tensordict(ds, folder=tmp_path, batch_size=50, fingerprint="x")
    assert ds.fetched == 201  # 300 to 499, and item 0 for the form
    assert torch.equal(mapped[slice(None)][0], ds.x)


def test_a_damaged_store_is_wrapped_again(tmp_path):
    ds = Images()
    folder = dataset_to_tensordict(ds, folder=tmp_path).folder
    with (folder / "leaf_0.memmap").open("r+b") as file:
        file.write(b"\xff")
    assert torch.equal(dataset_to_tensordict(ds, folder=tmp_path)[slice(None)][0], ds.x)


@pytest.mark.parametrize("way", ["shape", "dtype", "less", "more"])
def test_items_that_differ_are_named(tmp_path, way):
    with pytest.raises(ItemError, match="item 7 has"):
        dataset_to_tensordict(Odd(way), folder=tmp_path, fingerprint="x")


@pytest.mark.parametrize("batch_size", [10, 1024])
@pytest.mark.parametrize(
    ("one", "other"),
    [
        (torch.ones(1, dtype=torch.bfloat16), torch.tensor([12], dtype=torch.int16)),
        (torch.ones(1), torch.tensor([2**24 + 1], dtype=torch.int32)),
        (np.float32(1), np.float64(0.1)),
        (1.0, 2**53 + 1),
    ],
    ids=["bfloat16 int16", "float32 int32", "float32 float64", "float int"],
)
def test_a_value_of_another_dtype_is_refused_and_never_changed(tmp_path, one, other, batch_size):
    """Wherever batches are cut: those of ten have one dtype each."""
    ds = Made(lambda i: (one if i < 10 else other, i), 20)
    with pytest.raises(ItemError, match=r"item 10 has .* at '0'; wanted .*; convert items to one dtype"):
        dataset_to_tensordict(ds, folder=tmp_path, fingerprint="x", batch_size=batch_size, progress=False)


def test_numbers_of_python_and_of_numpy_may_be_mixed(tmp_path):
    mapped = dataset_to_tensordict(Made(lambda i: i if i % 2 else np.int64(i)), folder=tmp_path, progress=False)
    assert mapped[:].tolist() == list(range(40))


def test_failing_and_lying_datasets_are_named(tmp_path):
    with pytest.raises(KeyError, match="no such image") as raised:
        dataset_to_tensordict(Odd("fails"), folder=tmp_path, fingerprint="x")
    assert "while fetching item 7" in raised.value.__notes__[0]
    with pytest.raises(ItemError, match=r"says that it has 50 items, and has no item 7"):
        dataset_to_tensordict(Odd("ends"), folder=tmp_path, fingerprint="x")
    with pytest.raises(ItemError, match="item 0 holds str at 'a'"):
        dataset_to_tensordict([{"a": "text"}], folder=tmp_path)
    with pytest.raises(ItemError, match="has no items"):
        dataset_to_tensordict([], folder=tmp_path)
    with pytest.raises(ItemError, match="has no length"):
        dataset_to_tensordict(iter([1]), folder=tmp_path)


def test_workers_fetch_in_parallel(tmp_path):
    ds = Images(200)
    mapped = dataset_to_tensordict(ds, folder=tmp_path, batch_size=16, num_workers=2)
    assert torch.equal(mapped[slice(None)][0], ds.x)


def test_a_transform_sees_a_batch(tmp_path):
    seen = []

    def flip(x):
        seen.append(x.shape)
        return x.flip(-1)

    ds = Images()
    mapped = dataset_to_tensordict(ds, folder=tmp_path)
    collate = Collate_Fn(batch_size=25, DEVICE="cpu", transform=flip)
    batches = list(DataLoader(mapped, batch_size=25, collate_fn=collate))
    assert seen == [(25, 3, 4)] * 2
    assert torch.equal(torch.cat([x for x, _ in batches]), ds.x.flip(-1))
    assert torch.cat([y for _, y in batches]).tolist() == [i % 10 for i in range(50)]
    with pytest.raises(ItemError, match="wanted at most batch_size=10"):
        next(iter(DataLoader(mapped, batch_size=25, collate_fn=Collate_Fn(batch_size=10))))


def test_it_can_be_sent_to_other_processes(tmp_path):
    ds = Images()
    mapped = pickle.loads(pickle.dumps(dataset_to_tensordict(ds, folder=tmp_path)))
    assert torch.equal(mapped[3][0], ds.x[3])


def test_put_batch_on_device():
    moved = put_batch_on_device({"a": (torch.ones(2), "text")}, "meta")
    assert moved["a"][0].device.type == "meta" and moved["a"][1] == "text"


def test_a_loader_of_tensordicts(tmp_path):
    folder = lists_folder(tmp_path)
    plain = Loader(Table(folder), 100, targets="label", shuffle=True)
    wrapped = Loader(Table(folder), 100, targets="label", shuffle=True, batch_format="tensordict")
    for (features, label), batch in zip(plain, wrapped, strict=True):
        assert batch.batch_size == (len(label),)
        assert torch.equal(batch["label"], label) and torch.equal(batch["vec"], features["vec"])
        assert torch.equal(batch["tags"].values(), features["tags__values"])
        assert torch.equal(batch["tags"].offsets(), features["tags__offsets"])
    with pytest.raises(ArgumentError, match="batch_format='dict'"):
        Loader(Table(folder), batch_format="dict")


def test_a_folder_in_the_place_of_the_device_is_refused_before_anything_is_stored(tmp_path, monkeypatch):
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path / "auto"))
    images = Images()
    with pytest.raises(ArgumentError, match=r"'mapped' is no device of PyTorch.*a folder goes to folder="):
        dataset_to_tensordict(images, "mapped")
    assert images.fetched == 0 and not (tmp_path / "auto").exists()
