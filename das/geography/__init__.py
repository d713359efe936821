"""Blocks to a spine."""
