"""Persons in their households: whether published files of persons and households agree, and the
link that makes them agree. Values in, values out; nothing here can see the truth."""
