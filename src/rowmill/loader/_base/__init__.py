"""What the loaders of all frameworks share."""
