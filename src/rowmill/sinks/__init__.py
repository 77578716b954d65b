"""Where tables are written: Parquet files, local and in object stores, put in place atomically."""
