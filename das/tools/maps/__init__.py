"""Maps of a number for each unit."""
