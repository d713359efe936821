"""The ages of places: pyramids, single years and median ages, with intervals."""
