"""The two-line change of the memory-mapping page, as printed, in a small training program."""

import torch
from torch.utils.data import DataLoader

from rowmill.loader.tensordict import Collate_Fn, dataset_to_tensordict


class Dataset(torch.utils.data.Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(0)
        self.x = torch.rand(256, 1, 8, 8, generator=generator)
        self.y = (self.x.mean((1, 2, 3)) > 0.5).long()

    def __len__(self):
        return 256

    def __getitem__(self, index):
        return self.x[index], self.y[index]


def test_two_lines(tmp_path, monkeypatch):
    monkeypatch.setenv("ROWMILL_CACHE", str(tmp_path))
    DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    ds = Dataset()  # <--- potentially requires minor changes in __getitem__ method
    ds = dataset_to_tensordict(  # <--- Wraps here, this must be added into your existing code
        ds=ds,
        DEVICE=DEVICE,
    )
    loader = DataLoader(ds, batch_size=32, shuffle=True, collate_fn=Collate_Fn(batch_size=32, DEVICE=DEVICE))
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(5):
        for x, y in loader:
            assert x.shape == (32, 1, 8, 8) and x.device.type == DEVICE.type
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
