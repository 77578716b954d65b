"""The loaders, one public module for each framework; the packages with an underscore are private."""
