"""The frame of a run of any publication: its stages, its tasks, and what a publication is to it."""
