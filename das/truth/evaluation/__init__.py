"""Errors of published numbers, counted against the truth."""
