"""File formats: one module each, and the only code that opens paths."""
