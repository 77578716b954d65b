"""Private parts of `rowmill.loader.jax`."""
