"""The least coarsening as anybody sees it: grains, atoms, exact tables, and what follows from them."""
