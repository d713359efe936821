"""From measurements to non-negative, consistent, real-valued histograms."""
