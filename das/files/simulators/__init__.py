"""Simulated extracts in the true file formats."""
