"""The Detailed DHC: tables of race and ethnic groups that are finer for larger groups."""
