"""Runs of one input at several budgets."""
