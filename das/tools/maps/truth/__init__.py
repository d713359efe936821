"""The numbers of a map; some are errors against the truth."""
