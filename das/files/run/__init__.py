"""The folder of a run: its ledger, and what is confidential."""
