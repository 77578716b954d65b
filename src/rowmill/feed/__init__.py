"""From planned rows to batches of NumPy arrays, over threads. Knows no file format and no framework."""
