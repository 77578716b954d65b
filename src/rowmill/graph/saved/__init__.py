"""Saved workflows: written as JSON and Parquet, and read back without trusting a byte."""
