"""What the contestants of the race are called in tables and pictures."""

TITLES = {
    "ceiling": "Polars decodes and drops (the ceiling)",
    "rowmill": "Rowmill, shuffled",
    "rowmill-ordered": "Rowmill, not shuffled",
    "rowmill-int32": "Rowmill, shuffled, int32 ids",
    "rowmill-loader": "Rowmill Loader (dict), shuffled",
    "perm": "tensor[perm[i:j]] from RAM",
    "tensordict": "TensorDict memmap in a DataLoader",
    "arrow": "PyArrow iter_batches + stack, not shuffled",
    "stock-0": "DataLoader over tensors in RAM, 0 workers",
    "stock-2": "DataLoader over tensors in RAM, 2 workers",
}
