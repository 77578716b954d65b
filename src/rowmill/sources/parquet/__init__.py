"""Parquet files as a source: footers, page checks, decoding, and splitting of large row groups."""
