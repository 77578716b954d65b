"""Synthetic tables, throughput measurements and the demos."""
