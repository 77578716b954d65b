"""Where the statistics of a fit are computed: threads of this process, or a Dask cluster."""
