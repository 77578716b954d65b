"""Private parts of the Keras loaders: the Keras dataset protocol on top of a stream."""
