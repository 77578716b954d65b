"""What several operators are made of: vocabularies, indexes of times, and checks of columns."""
