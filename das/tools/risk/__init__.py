"""What an intruder learns of a run: decisions, exposure, attacks on tables."""
