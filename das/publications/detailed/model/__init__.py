"""Values of the Detailed DHC: groups, their tables, and what is measured of them."""
