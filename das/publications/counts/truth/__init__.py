"""How counts over a tree are made from records."""
