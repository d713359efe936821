"""Counts over a tree: redistricting data, the 1940 census, and tables of your own."""
