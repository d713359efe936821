"""A run compared with published counts, with its truth, or with another run."""
