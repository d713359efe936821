"""Estimates of the S-DHC from noisy answers: arrays in, arrays out."""
