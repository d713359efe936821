"""Estimates of the Detailed DHC that add up, with intervals."""
