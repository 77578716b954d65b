"""What `loader.plan()` and `loader.stats()` return, as text tables."""
