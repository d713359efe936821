"""Exact noise: entropy, and integer samplers that never round."""
