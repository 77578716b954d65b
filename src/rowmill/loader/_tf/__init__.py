"""Private parts of `rowmill.loader.tensorflow`."""
