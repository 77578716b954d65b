"""The two styles of dataset that PyTorch's `DataLoader` takes, both over Parquet files: a stream, and rows by number.

Run it: python examples/dataloader_styles.py
"""

import tempfile
from pathlib import Path

import torch
from torch.utils.data import DataLoader, RandomSampler

import rowmill
from rowmill.loader.torch import Loader
from rowmill.tools.synthetic import criteo

NUMBERS = [f"I{i}" for i in range(1, 14)]


def train(loader, model: torch.nn.Module) -> float:
    """One epoch; the mean loss."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    criterion = torch.nn.BCEWithLogitsLoss()
    total, rows = 0.0, 0
    for batch, labels in loader:
        outputs = model(torch.stack([batch[name] for name in NUMBERS], dim=1)).squeeze(1)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total, rows = total + loss.item() * len(labels), rows + len(labels)
    return total / rows


def main() -> None:
    folder = Path(tempfile.mkdtemp())
    criteo(folder, rows=20_000, files=2, row_group_rows=5_000)
    data = rowmill.Dataset(folder)

    # A stream: whole batches, shuffled while they are read. num_workers=0: Rowmill has threads of its own.
    stream = Loader(data, batch_size=1024, columns=NUMBERS, targets="label", shuffle=True)
    print(f"stream: loss {train(DataLoader(stream, batch_size=None), torch.nn.Linear(13, 1)):.4f}")
    print(stream.stats())

    # Rows by number, for any sampler. collate_fn=view.collate makes a batch without touching single rows.
    view = data.as_map_style(columns=NUMBERS, targets="label")
    rows = DataLoader(view, batch_size=1024, num_workers=2, sampler=RandomSampler(view), collate_fn=view.collate)
    print(f"map: loss {train(rows, torch.nn.Linear(13, 1)):.4f}")


if __name__ == "__main__":
    main()
