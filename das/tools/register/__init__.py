"""The command and the page of the register of an office."""
