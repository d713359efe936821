"""Files of the S-DHC: what PHSafe reads and writes."""
