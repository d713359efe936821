"""What else a release holds: spine, areas, estimates, statement, tables."""
