"""Avro files as a source: their blocks, and decoding."""
