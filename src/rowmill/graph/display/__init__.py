"""A graph for people: as a picture and as text."""
