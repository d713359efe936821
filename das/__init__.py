"""The TopDown disclosure-avoidance system."""
