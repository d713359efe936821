"""Measurements of another publisher, in the layout of the Census Bureau: to estimate from them as from
ours."""
