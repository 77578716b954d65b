"""Sources that change another source: casts, transformations, other partitions."""
