"""Private parts of the PyTorch loaders."""
