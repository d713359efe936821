"""The layout of published noisy measurement files, and what is known besides them."""
