"""The tables of *Why large blocks lose people* (docs/explanation/size-bias.md), from the real file."""
