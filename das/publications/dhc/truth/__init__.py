"""The side of a DHC run that has the records: it counts them, and adds noise to what is asked."""
