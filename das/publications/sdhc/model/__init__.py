"""The Supplemental DHC: what its tables count, its records, and what its queries cost."""
