"""Tables in memory as a source: pandas, Polars, Arrow and Dask, and rows for pandas users."""
