"""What `Dataset` can do with its rows: choosing some of them, and following a table that grows."""
