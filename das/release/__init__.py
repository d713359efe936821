"""A release, from its own folder alone: what is made of its measurements, and what is said of
it.
"""
