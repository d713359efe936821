"""The formats of records that are read, by the names that a configuration has for them."""

from __future__ import annotations

#: The one whose columns and encoding a configuration tells; the others are of files that say what
#: they are.
TABLE = "table"
#: The module of each is in ``das/files/readers``, of the same name with underscores.
READERS = ("pl94-2010", "pl94-2020", "ext1940", "ppmf", TABLE)
