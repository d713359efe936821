"""How persons, households and units of the DHC are published: columns of the microdata, tables, and
sums that rounding keeps.
"""

from __future__ import annotations

from functools import cache

from das.model.dhc import microdata, strategy
from das.model.dhc.household_tables import household_tables, unit_tables
from das.model.dhc.person_tables import person_tables
from das.model.publications import Publication


@cache
def persons() -> Publication:
    """Of :data:`das.model.dhc.persons.DHCP`."""
    s = strategy.persons()
    return Publication(s.schema, microdata.person_form(), s.outer[0].chain, person_tables())


@cache
def households() -> Publication:
    """Of :data:`das.model.dhc.households.DHCH`."""
    s = strategy.households()
    return Publication(s.schema, microdata.household_form(), s.outer[0].chain, household_tables())


@cache
def units() -> Publication:
    """Of :data:`das.model.dhc.units.TENVACGQ`."""
    return Publication(strategy.units().schema, microdata.unit_form(), (), unit_tables())
