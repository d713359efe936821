"""A release, from its own folder alone: estimates from its measurements, and facts about it."""
