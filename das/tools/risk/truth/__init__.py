"""Unique persons of a run, and the score of an attack."""
