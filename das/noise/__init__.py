"""Exact noise: entropy, and integer samplers that never round."""

from das.noise import discrete_gaussian, discrete_laplace, entropy

__all__ = ["discrete_gaussian", "discrete_laplace", "entropy"]
