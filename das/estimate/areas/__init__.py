"""Areas of lowest units that cut across the tree: the noise of their counts, and unbiased estimates
of these."""
