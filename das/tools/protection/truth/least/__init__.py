"""The least coarsening that passes given rules: found from the true counts."""
