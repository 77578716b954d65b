"""Compiles a graph to queries and runs them, for `fit` and `transform`."""
