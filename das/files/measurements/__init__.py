"""Noisy measurement files: ours, and as the Bureau published them."""
