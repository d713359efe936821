"""How far the published numbers are from the truth: confidential, because errors depend on the
truth."""
