"""The program of the PyTorch page, with only the import changed; training and validation loader."""

import glob

import torch

import rowmill as nvt
from rowmill.loader.torch import DLDataLoader, TorchAsyncItr
from rowmill.tools.synthetic import criteo


def test_the_documents_program(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    criteo(tmp_path / "train", 6000, files=3, row_group_rows=500, seed=1)
    criteo(tmp_path / "valid", 1000, files=1, row_group_rows=500, seed=2)
    CATEGORICAL_COLUMNS = [f"C{i}" for i in range(1, 27)]
    CONTINUOUS_COLUMNS = [f"I{i}" for i in range(1, 14)]
    LABEL_COLUMNS = ["label"]
    BATCH_SIZE = 512

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Embedding(1000, 4)
            self.out = torch.nn.Linear(26 * 4 + 13, 1)

        def forward(self, x_cat, x_cont):
            return self.out(torch.cat([self.table(x_cat % 1000).flatten(1), x_cont], 1)).squeeze(1)

    def collate_fn(batch):
        return batch

    TRAIN_PATHS = glob.glob("./train/*.parquet")
    train_dataset = TorchAsyncItr(
        nvt.Dataset(TRAIN_PATHS),
        cats=CATEGORICAL_COLUMNS,
        conts=CONTINUOUS_COLUMNS,
        labels=LABEL_COLUMNS,
        batch_size=BATCH_SIZE,
    )
    train_loader = DLDataLoader(train_dataset, batch_size=None, collate_fn=collate_fn, pin_memory=False, num_workers=0)
    valid_dataset = TorchAsyncItr(
        nvt.Dataset(glob.glob("./valid/*.parquet")),
        cats=CATEGORICAL_COLUMNS,
        conts=CONTINUOUS_COLUMNS,
        labels=LABEL_COLUMNS,
        batch_size=BATCH_SIZE,
    )
    valid_loader = DLDataLoader(valid_dataset, batch_size=None, collate_fn=collate_fn, pin_memory=False, num_workers=0)
    model = Model()
    loss_func = torch.nn.BCEWithLogitsLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    assert (len(train_loader), len(valid_loader)) == (12, 2)
    losses = []
    for _ in range(3):
        total = 0.0
        for x_cat, x_cont, y in iter(train_loader):
            y_pred = model(x_cat, x_cont)
            loss = loss_func(y_pred, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(y)
        losses.append(total / 6000)
        with torch.no_grad():
            rows = sum(len(model(x_cat, x_cont)) for x_cat, x_cont, _ in valid_loader)
        assert rows == 1000 == valid_dataset.num_rows_processed
        assert train_dataset.num_rows_processed == 6000
    assert losses[-1] < losses[0]


def test_a_default_data_loader_hands_the_collate_function_a_list_of_one_batch(tmp_path):
    criteo(tmp_path, 100, files=1, row_group_rows=50)
    itr = TorchAsyncItr(nvt.Dataset(tmp_path), cats=["C1"], conts=["I1"], labels=["label"], batch_size=40)
    seen = list(DLDataLoader(itr, collate_fn=lambda batch: batch, pin_memory=False, num_workers=0))
    assert [len(item) for item in seen] == [1, 1, 1]
    assert seen[0][0][0].shape == (40, 1)
