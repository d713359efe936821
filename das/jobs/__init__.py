"""Work on finished runs, or on several: sweep, comparison, map, attack."""
