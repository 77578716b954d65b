"""One pass over a plan: the stream, its threads, its buffers and its position."""
