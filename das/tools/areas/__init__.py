"""Counts of any areas of blocks, and how well a plan will know them."""
