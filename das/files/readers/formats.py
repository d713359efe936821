"""The formats of records that are read, each with what the privacy statement says of it.

They are here, apart from the modules that read, so that anyone who checks a statement can write its
sentences again."""

from __future__ import annotations

from das.plugins import Reader

#: Persons for each occupied housing unit that a reader or simulator puts into households.
MOST_AT_HOME = 20

_NOTES = (
    (
        "The reader made each person's record from the published tables. These do not give a kind"
        " of dwelling by person. The reader assigned it from the counts of the block: group"
        " quarters from SF1 or P5, or because there are too few occupied housing units. So it can depend"
        " on other records of the block."
    ),
    (
        "A block is taken to have a facility of a type if somebody lives in that type of group"
        " quarters there. So the bounds say, exactly, whether anybody lives in each type in each"
        " block."
    ),
)
PL94_2010 = Reader(
    "das.files.readers.pl94_2010",
    _NOTES,
    {
        "hhgq": (
            "The type of group quarters (hhgq) was assigned, not counted: the redistricting files"
            " of 2010 do not say who lives in group quarters. A block's persons beyond"
            f" {MOST_AT_HOME} for each occupied housing unit are in other noninstitutional"
            " facilities here, and all others in"
            " households. Table P5, and everything else that separates types of group quarters,"
            " shows this rule. A 0 there does not mean that nobody lives in such a place."
        )
    },
)
PL94_2020 = Reader("das.files.readers.pl94_2020", _NOTES)
EXT1940 = Reader("das.files.readers.ext1940")
PPMF = Reader(
    "das.files.readers.ppmf",
    (
        (
            "The places are the blocks that have persons in the file, and dwellings are taken to be"
            " there where somebody lives in them."
        ),
    ),
)
TABLE = Reader(
    "das.files.readers.table",
    (
        (
            "The list of places is that of the places that occur in the table: that a place has a"
            " record at all is published exactly. List empty places with a count of 0 to hide it."
        ),
    ),
    structures=False,
    options=frozenset({"columns", "encoding", "places"}),
)
