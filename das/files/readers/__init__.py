"""Input files: one module per format that is read."""
