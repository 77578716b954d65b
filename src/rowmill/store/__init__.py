"""Packed rows on disk, memory-mapped: written by the first epoch, read by later ones."""
