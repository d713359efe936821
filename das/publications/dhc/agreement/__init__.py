"""Whether the persons, households and units of a DHC agree with each other."""
