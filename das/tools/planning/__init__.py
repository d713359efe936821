"""Plans of a budget: margins of error, prices, the best shares."""
