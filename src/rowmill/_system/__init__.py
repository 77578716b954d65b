"""What the rest stands on: threads, signals, forked processes, file handles, sizes and progress."""
