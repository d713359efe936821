"""Microdata files."""
