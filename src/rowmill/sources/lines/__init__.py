"""Files of lines of text: where rows begin, and JSON lines as a source. CSV files build on it too."""
