"""Versions of Delta and Iceberg tables: which Parquet files a version is made of, and its rows as a source."""
