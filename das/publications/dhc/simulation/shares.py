"""National shares that simulated households and persons are drawn by; all of them approximate, of
2020, and made to fit together.

Weights, not probabilities: what is drawn by them is conditional on the persons of the block. Tables
that a constant names rows of are ``(rows, columns)``."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from das.publications.dhc.model import quarters
from das.publications.dhc.model.members import LEVEL
from das.publications.dhc.model.persons import OLDEST

Floats = NDArray[np.float64]

#: Households by adults (rows, from none) and minors (columns, from none), in per cent. Those
#: without an adult are hardly any: they are where a block has fewer adults than households.
COMPOSITION = np.array(
    [
        [0.0, 2e-3, 1e-3, 1e-4, 1e-5, 1e-6],
        [28.8, 3.6, 2.3, 0.9, 0.3, 0.12],
        [31.8, 8.0, 9.2, 3.8, 1.3, 0.5],
        [6.1, 2.6, 1.5, 0.6, 0.25, 0.12],
        [2.6, 0.9, 0.5, 0.25, 0.1, 0.05],
        [0.8, 0.3, 0.2, 0.1, 0.05, 0.02],
    ]
)
#: By how much each adult, or minor, beyond the table is rarer than the one before.
BEYOND = 0.35

#: Couples (MO, MS, CO, CS, N) by who lives there: an adult with minors, the couple then being very
#: young; two adults, without minors and with; three; four or more.
COUPLE = np.array(
    [
        [0.0004, 0.00002, 0.0008, 0.00004, 0.99874],
        [0.71, 0.012, 0.12, 0.013, 0.145],
        [0.79, 0.004, 0.11, 0.003, 0.093],
        [0.62, 0.002, 0.035, 0.002, 0.341],
        [0.65, 0.002, 0.06, 0.002, 0.286],
        [0.6, 0.001, 0.03, 0.001, 0.368],
    ]
)

_AGES = (18, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 85, 90, 95, 100, 115)
#: Ages of householders: alone; alone with minors; a couple; a couple with minors; a couple with
#: other adults; with these and minors; other adults; other adults and minors.
_HEAD = (
    (2, 7, 17, 18, 15, 13, 14, 18, 24, 28, 29, 28, 24, 20, 15, 8, 3, 0.5, 0.001),
    (3, 6, 14, 22, 25, 22, 16, 9, 5, 3, 2, 1, 0.5, 0.2, 0.1, 0.05, 0.01, 0.001, 0.0001),
    (0.6, 4, 16, 17, 11, 9, 12, 18, 27, 35, 38, 36, 28, 18, 9, 3.5, 0.8, 0.1, 0.001),
    (0.3, 2, 10, 22, 30, 28, 18, 9, 4, 2, 1, 0.6, 0.3, 0.1, 0.03, 0.01, 0.002, 0.0002, 0.00001),
    (0.3, 1, 3, 4, 5, 10, 20, 30, 32, 28, 22, 16, 10, 6, 3, 1.2, 0.3, 0.05, 0.0005),
    (0.2, 1, 4, 9, 18, 27, 28, 20, 12, 8, 5, 3, 2, 1, 0.3, 0.1, 0.03, 0.01, 0.0001),
    (4, 14, 20, 14, 9, 9, 12, 15, 17, 16, 14, 11, 9, 7, 5, 2.5, 0.8, 0.1, 0.001),
    (2, 6, 12, 15, 18, 20, 18, 15, 11, 8, 6, 4, 3, 2, 1, 0.4, 0.1, 0.02, 0.0005),
)
#: And as many shares of householders who are male.
HEAD_MALE = np.array([0.45, 0.2, 0.6, 0.55, 0.6, 0.57, 0.47, 0.36])

#: Roles other than householder and partner depend on the householder's age, by these classes.
BANDS = (18, 34, 54, 67, 80)
#: Of households without a couple, but with several adults, by class of age, how often the others
#: are no relatives.
UNRELATED = np.array([0.1, 0.62, 0.3, 0.17, 0.12, 0.08])
_ROLES = (
    "biological-child",
    "adopted-child",
    "stepchild",
    "sibling",
    "parent",
    "grandchild",
    "parent-in-law",
    "child-in-law",
    "other-relative",
    "roommate",
    "foster-child",
    "other-nonrelative",
)
ROLE_LEVELS = np.array([LEVEL[role] for role in _ROLES])
#: Rows: minors; adults with a couple; adult relatives; other adults. Columns are classes of the
#: householder's age. What structural zeros of both schemas forbid at the ages of a class has no
#: weight: own children under 18 from 67, adult ones before 34, and so on.
ROLES = np.array(
    [
        [
            [8, 0.2, 0, 75, 0, 0, 0, 0, 12, 0.5, 0, 4],
            [905, 9, 28, 14, 0, 0, 0, 0, 18, 1, 3, 14],
            [860, 24, 46, 2, 0, 24, 0, 0, 18, 0.7, 5, 12],
            [440, 30, 25, 0.5, 0, 430, 0, 0, 45, 0.7, 12, 12],
            [0, 0, 0, 0, 0, 880, 0, 0, 90, 1, 15, 12],
            [0, 0, 0, 0, 0, 800, 0, 0, 160, 1, 5, 20],
        ],
        [
            [0, 0, 0, 30, 45, 0, 15, 0, 8, 1, 0, 3],
            [0, 0, 0, 27, 22, 0, 12, 0, 13, 12, 0.3, 13],
            [660, 15, 60, 30, 85, 0, 55, 15, 40, 12, 1, 28],
            [740, 17, 30, 22, 60, 15, 35, 45, 25, 6, 1, 15],
            [680, 15, 25, 40, 20, 75, 12, 80, 35, 6, 0.5, 15],
            [620, 12, 20, 45, 0, 110, 0, 90, 60, 6, 0, 30],
        ],
        [
            [0, 0, 0, 35, 55, 0, 0.5, 0, 8, 0, 0, 0],
            [0, 0, 0, 52, 30, 0, 1, 0, 15, 1, 0.2, 2],
            [620, 15, 12, 80, 200, 0, 6, 12, 40, 6, 1, 12],
            [660, 16, 9, 100, 110, 18, 4, 30, 40, 5, 1, 10],
            [690, 14, 8, 95, 25, 65, 2, 45, 45, 4, 0.5, 10],
            [720, 12, 7, 70, 0, 75, 0, 50, 50, 4, 0, 15],
        ],
        [[0, 0, 0, 0, 0, 0, 0, 0, 0, 75, 0, 25]] + [[0, 0, 0, 0, 0, 0, 0, 0, 0, 65, 0, 35]] * 5,
    ],
    dtype=np.float64,
)

#: By level of ``relgq``: years by which they are older than the householder (mean, standard
#: deviation, least, most), and the share of males. For partners, sex follows from the
#: householder's.
GAPS: dict[str, tuple[float, float, int, int, float]] = {
    "opposite-sex-spouse": (0, 4.5, -24, 24, 0.0),
    "opposite-sex-partner": (0, 6, -24, 24, 0.0),
    "same-sex-spouse": (0, 6, -24, 24, 0.0),
    "same-sex-partner": (0, 7, -24, 24, 0.0),
    "biological-child": (-30, 8.5, -50, -15, 0.52),
    "adopted-child": (-35, 8, -50, -15, 0.5),
    "stepchild": (-28, 8, -50, -15, 0.52),
    "sibling": (0, 8, -30, 30, 0.56),
    "parent": (28, 6, 15, 45, 0.27),
    "grandchild": (-55, 8, -85, -32, 0.52),
    "parent-in-law": (26, 7, 15, 45, 0.25),
    "child-in-law": (-29, 7, -50, -15, 0.5),
    "other-relative": (-8, 24, -OLDEST, OLDEST, 0.53),
    "roommate": (0, 7, -OLDEST, OLDEST, 0.56),
    "foster-child": (-40, 12, -OLDEST, OLDEST, 0.52),
    "other-nonrelative": (-4, 15, -OLDEST, OLDEST, 0.55),
}

#: Shares of owners by age of the householder, in households of a couple and in others. Then the
#: share of owners with a mortgage. Ages are from 15, 25, 35, 45, 55, 60, 65, 75, 85.
OWNED = np.array(
    [
        [0.28, 0.59, 0.76, 0.84, 0.88, 0.89, 0.92, 0.92, 0.87],
        [0.11, 0.3, 0.43, 0.52, 0.58, 0.6, 0.65, 0.69, 0.63],
    ]
)
MORTGAGE = np.array([0.8, 0.92, 0.88, 0.82, 0.72, 0.63, 0.48, 0.3, 0.18])
BLOCK_TENURE = 1.3  #: the standard deviation between blocks of the logarithm of the odds of owning
CASHLESS = 0.055  #: of those who do not own
#: Vacant units by why, in the order of ``units.VACANCIES``; and how often one is as most of its
#: block are.
VACANT = np.array([0.205, 0.035, 0.075, 0.04, 0.33, 0.005, 0.31])
ALIKE = 0.5

#: By type of group quarters: how common among facilities of its class, their size, the share of
#: males, and weights of ages. Ages are from 0, 10, 18, 20, 25, 35, 50, 65, 80, 95.
_QUARTERS: dict[str, tuple[float, float, float, tuple[float, ...]]] = {
    "101": (2, 10, 0.9, (0, 0, 4, 8, 16, 16, 8, 2, 0.3, 0.01)),
    "102": (3, 40, 0.93, (0, 0, 1, 5, 14, 18, 10, 2, 0.3, 0.01)),
    "103": (20, 40, 0.92, (0, 0, 2, 7, 15, 16, 9, 2.5, 0.3, 0.01)),
    "104": (45, 10, 0.86, (0, 0, 6, 12, 16, 14, 6, 1, 0.1, 0.01)),
    "105": (29, 4, 0.87, (0, 0, 4, 9, 15, 14, 7, 1, 0.1, 0.01)),
    "106": (1, 5, 0.95, (0, 0, 9, 16, 14, 6, 1, 0.1, 0, 0)),
    "201": (48, 1, 0.65, (0.5, 5, 10, 1, 0.1, 0, 0, 0, 0, 0)),
    "202": (30, 2, 0.62, (0.3, 6, 10, 1, 0.1, 0, 0, 0, 0, 0)),
    "203": (22, 3, 0.86, (0.01, 2, 12, 4, 0.2, 0, 0, 0, 0, 0)),
    "301": (1, 10, 0.36, (0, 0, 0, 0.05, 0.1, 0.3, 1.5, 6, 18, 12)),
    "401": (50, 5, 0.62, (0.1, 2, 5, 6, 9, 9, 8, 4, 1, 0.1)),
    "402": (12, 3, 0.5, (4, 1, 2, 3, 4, 5, 6, 7, 5, 1)),
    "403": (22, 1, 0.4, (0.1, 0.1, 0.1, 0.2, 0.4, 1, 3, 7, 12, 9)),
    "404": (4, 3, 0.85, (0, 0, 8, 12, 12, 6, 1, 0.3, 0, 0)),
    "405": (12, 3, 0.62, (0.1, 6, 9, 4, 0.3, 0, 0, 0, 0, 0)),
    "501": (1, 10, 0.46, (0, 0, 30, 28, 2, 0.3, 0.1, 0.01, 0, 0)),
    "601": (9, 12, 0.85, (0, 0, 12, 16, 9, 2.5, 0.3, 0.01, 0, 0)),
    "602": (1, 15, 0.84, (0, 0, 9, 16, 10, 3, 0.3, 0.01, 0, 0)),
    "701": (18, 3, 0.6, (6, 4.5, 4, 5, 8, 9, 8, 3, 0.4, 0.03)),
    "801": (48, 1, 0.58, (0, 0, 2, 4, 7, 8, 9, 6, 2.5, 0.6)),
    "802": (15, 2, 0.68, (0, 0, 2, 6, 11, 10, 7, 2, 0.3, 0.03)),
    "900": (2, 2, 0.9, (0, 0, 3, 7, 9, 8, 6, 1, 0, 0)),
    "901": (9, 2, 0.8, (0.5, 1, 10, 11, 11, 9, 5, 1, 0.1, 0.01)),
    "997": (8, 2, 0.5, (2, 2, 4, 6, 7, 7, 6, 5, 3, 1)),
}
_AT = (0, 10, 18, 20, 25, 35, 50, 65, 80, 95)
LEAST = 1e-9  #: a weight for what is possible and has none


def _by_age(at: tuple[int, ...], rows: list[tuple[float, ...]]) -> Floats:
    ages = np.arange(OLDEST + 1)
    return np.array([np.interp(ages, at, row, right=0) for row in rows]) + LEAST


#: ``(rows, 116)``.
HEAD_AGES = _by_age(_AGES, list(_HEAD))
QUARTERS_AGES = _by_age(_AT, [_QUARTERS[t.code][3] for t in quarters.TYPES])
FACILITIES, FACILITY_SIZES, QUARTERS_MALE = np.array(
    [_QUARTERS[t.code][:3] for t in quarters.TYPES]
).T
#: The class of ``hhgq`` of each type, 1 to 7.
CLASS = np.array([quarters.HHGQ.levels.index(t.hhgq) for t in quarters.TYPES])


def gap_ages() -> Floats:
    """Weights of being ``i - 115`` years older than the householder, ``(18, 231)``, by level of
    ``relgq``."""
    years = np.arange(-OLDEST, OLDEST + 1)
    out = np.full((len(LEVEL), len(years)), LEAST)
    for name, (mean, sd, *_) in GAPS.items():
        out[LEVEL[name]] += np.exp(-0.5 * ((years - mean) / sd) ** 2)
    return out
