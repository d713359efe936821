"""Files of the DHC: linked records, measurements on demand, fixed counts."""
