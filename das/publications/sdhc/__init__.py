"""The Supplemental DHC (S-DHC): persons in households, by PHSafe's tables."""
