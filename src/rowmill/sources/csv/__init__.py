"""CSV files as a source."""
