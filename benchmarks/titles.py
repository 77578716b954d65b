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
    "plain": "first epoch of a loader without a store",
    "first": "first epoch with a store, written through",
    "later": "later epochs, from the store",
    "full": "full shuffle, from the store",
    "take": "np.take from RAM, the copy alone",
    "datasets": "Hugging Face datasets, with_format('torch')",
    "memmap-rows": "np.memmap indexed per row in a DataLoader",
    "pass": "one pass over a TensorDataset",
    "wrap": "dataset_to_tensordict of it",
}
