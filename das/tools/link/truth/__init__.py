"""The score of linked records, against the true ones."""
