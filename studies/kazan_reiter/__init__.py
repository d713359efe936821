"""Kazan and Reiter (2022), *Assessing statistical disclosure risk for differentially private,
hierarchical count data*.
"""
