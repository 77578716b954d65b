"""How `memory=` is divided, and the blocks of memory that batches are slices of."""
