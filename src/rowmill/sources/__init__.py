"""Where rows come from: the `Source` protocol and its implementations. Knows no tensors, batches or order."""
