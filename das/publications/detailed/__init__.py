"""The Detailed DHC: counts of detailed race and ethnic groups, as SafeTab makes them."""
