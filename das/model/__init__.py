"""Values only: NumPy and the standard library; no input or output, no randomness."""
