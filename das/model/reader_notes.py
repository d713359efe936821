"""What each reader of records says for the privacy statement: sentences that follow from the format
alone.

They stand here, where no records are, so that who checks a statement can write them again.
"""

from __future__ import annotations

from collections.abc import Mapping

_PL94 = (
    (
        "A person's record is the line that the reader made of the published tables. Its kind of"
        " dwelling is not in the tables by person: it was assigned from the counts of the block"
        " (the group quarters of persons from SF1 or P5, or from there being no occupied housing"
        " unit), so it can depend on other records of the block."
    ),
    (
        "The facilities of group quarters by type are taken to be there where somebody lives in"
        " them: their bounds say, exactly, whether anybody lives in each type in each block."
    ),
)
#: By the name of the reader.
NOTES: Mapping[str, tuple[str, ...]] = {
    "pl94-2010": _PL94,
    "pl94-2020": _PL94,
    "ext1940": (),
    "ppmf": (
        (
            "The places are the blocks that have persons in the file, and dwellings are taken to be"
            " there where somebody lives in them."
        ),
    ),
    "table": (
        (
            "The list of places is that of the places that occur in the table: that a place has a"
            " record at all is published exactly. List empty places with a count of 0 to hide it."
        ),
    ),
}
#: Attributes of persons that a reader may have to assign, each with a sentence.
ASSIGNED: Mapping[str, Mapping[str, str]] = {
    "pl94-2010": {
        "hhgq": (
            "The type of group quarters (hhgq) was assigned, not counted: the redistricting files"
            " of 2010 do not say who lives in group quarters. Persons in a block without an"
            " occupied housing unit are in other noninstitutional facilities here, and all others"
            " in households. Table P5, and everything else that separates types of group quarters,"
            " shows this rule. A 0 there does not mean that nobody lives in such a place."
        )
    }
}
