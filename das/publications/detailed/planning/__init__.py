"""Margins of error, thresholds and the privacy loss of a plan of the Detailed DHC."""
