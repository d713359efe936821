"""Linked records that are made up to the counts of a redistricting extract."""
