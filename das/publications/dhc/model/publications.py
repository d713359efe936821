"""How persons, households and units of the DHC are published: columns of the microdata, tables, and
sums that rounding keeps."""

from __future__ import annotations

from functools import cache

from das.model.universe import Publication
from das.publications.dhc.model import microdata, strategy
from das.publications.dhc.model.person_tables import household_tables, person_tables, unit_tables


@cache
def persons() -> Publication:
    """Of :data:`das.publications.dhc.model.persons.DHCP`."""
    s = strategy.persons()
    return Publication(s.schema, microdata.person_form(), s.outer[0].chain, person_tables())


@cache
def households() -> Publication:
    """Of :data:`das.publications.dhc.model.households.DHCH`."""
    s = strategy.households()
    return Publication(s.schema, microdata.household_form(), s.outer[0].chain, household_tables())


@cache
def units() -> Publication:
    """Of :data:`das.publications.dhc.model.households.TENVACGQ`."""
    return Publication(strategy.units().schema, microdata.unit_form(), (), unit_tables())
