"""The states, with their codes and divisions."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from das.model.names import Names


class State(NamedTuple):
    """A state or equivalent: postal abbreviation, FIPS code, census division (0 = none) and
    name.
    """

    usps: str
    fips: str
    division: int
    name: str


STATES = tuple(
    State(usps, fips, int(division), name)
    for usps, fips, division, name in (
        line.split(maxsplit=3)
        for line in """\
AL 01 6 Alabama
AK 02 9 Alaska
AZ 04 8 Arizona
AR 05 7 Arkansas
CA 06 9 California
CO 08 8 Colorado
CT 09 1 Connecticut
DE 10 5 Delaware
DC 11 5 District of Columbia
FL 12 5 Florida
GA 13 5 Georgia
HI 15 9 Hawaii
ID 16 8 Idaho
IL 17 3 Illinois
IN 18 3 Indiana
IA 19 4 Iowa
KS 20 4 Kansas
KY 21 6 Kentucky
LA 22 7 Louisiana
ME 23 1 Maine
MD 24 5 Maryland
MA 25 1 Massachusetts
MI 26 3 Michigan
MN 27 4 Minnesota
MS 28 6 Mississippi
MO 29 4 Missouri
MT 30 8 Montana
NE 31 4 Nebraska
NV 32 8 Nevada
NH 33 1 New Hampshire
NJ 34 2 New Jersey
NM 35 8 New Mexico
NY 36 2 New York
NC 37 5 North Carolina
ND 38 4 North Dakota
OH 39 3 Ohio
OK 40 7 Oklahoma
OR 41 9 Oregon
PA 42 2 Pennsylvania
RI 44 1 Rhode Island
SC 45 5 South Carolina
SD 46 4 South Dakota
TN 47 6 Tennessee
TX 48 7 Texas
UT 49 8 Utah
VT 50 1 Vermont
VA 51 5 Virginia
WA 53 9 Washington
WV 54 5 West Virginia
WI 55 3 Wisconsin
WY 56 8 Wyoming
PR 72 0 Puerto Rico""".splitlines()
    )
)
#: Census region (1 to 4) of each division.
REGION_OF_DIVISION = (9, 1, 1, 2, 2, 3, 3, 3, 4, 4)


def state_names() -> dict[str, Names]:
    """The names of the states, for files that say their codes alone."""
    codes, names = (np.array([getattr(s, part) for s in STATES]) for part in ("fips", "name"))
    return {"State": Names.of(codes, names)}
