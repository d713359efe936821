"""The 24 types of group quarters that the file tells apart, by the code that they have in the
microdata."""

from __future__ import annotations

from typing import NamedTuple

from das.model.query import Grouping
from das.model.redistricting import PL94


class QuartersType(NamedTuple):
    """``hhgq`` is what the redistricting schema calls it."""

    code: str
    hhgq: str
    label: str

    @property
    def level(self) -> str:
        """Its level in the schemas.

        >>> TYPES[0].level
        'gq-101'"""
        return f"gq-{self.code}"


HHGQ = PL94.attribute("hhgq")

#: In order. What the input calls 702, 704, 706, 903 and 904 is 997 here.
TYPES = tuple(
    QuartersType(code, hhgq, label)
    for code, hhgq, label in (
        ("101", "correctional", "Federal detention centers"),
        ("102", "correctional", "Federal prisons"),
        ("103", "correctional", "State prisons"),
        ("104", "correctional", "Local jails and other municipal confinement facilities"),
        ("105", "correctional", "Correctional residential facilities"),
        ("106", "correctional", "Military disciplinary barracks and jails"),
        ("201", "juvenile", "Group homes for juveniles (non-correctional)"),
        ("202", "juvenile", "Residential treatment centers for juveniles (non-correctional)"),
        ("203", "juvenile", "Correctional facilities intended for juveniles"),
        ("301", "nursing", "Nursing facilities/Skilled-nursing facilities"),
        (
            "401",
            "other-institutional",
            "Mental (psychiatric) hospitals and psychiatric units in other hospitals",
        ),
        ("402", "other-institutional", "Hospitals with patients who have no usual home elsewhere"),
        ("403", "other-institutional", "In-patient hospice facilities"),
        ("404", "other-institutional", "Military treatment facilities with assigned patients"),
        ("405", "other-institutional", "Residential schools for people with disabilities"),
        ("501", "college", "College/University student housing"),
        ("601", "military", "Military quarters"),
        ("602", "military", "Military ships"),
        (
            "701",
            "other-noninstitutional",
            "Emergency and transitional shelters for people experiencing homelessness",
        ),
        ("801", "other-noninstitutional", "Group homes intended for adults"),
        ("802", "other-noninstitutional", "Residential treatment centers for adults"),
        ("900", "other-noninstitutional", "Maritime/Merchant vessels"),
        ("901", "other-noninstitutional", "Workers' group living quarters and Job Corps centers"),
        ("997", "other-noninstitutional", "Other noninstitutional facilities"),
    )
)

LEVELS = tuple(t.level for t in TYPES)
LABELS = tuple(t.label for t in TYPES)


def levels(*hhgq: str) -> tuple[str, ...]:
    """Those of some types of the redistricting schema.

    >>> levels("military", "nursing")
    ('gq-301', 'gq-601', 'gq-602')"""
    return tuple(t.level for t in TYPES if t.hhgq in hhgq)


def groupings(attribute: str, before: int) -> tuple[Grouping, ...]:
    """Of an attribute whose last 24 levels are these types, after ``before`` others, which are one
    group: the types, their seven classes in the redistricting schema, and the two of these."""
    seven = [HHGQ.levels.index(t.hhgq) for t in TYPES]
    (major,) = PL94.recodes
    every = tuple(range(1, 1 + len(TYPES)))
    return (
        Grouping(
            "gqlevels",
            attribute,
            (HHGQ.levels[0], *LEVELS),
            (0,) * before + every,
            "Type of group quarters",
            (HHGQ.labels[0], *LABELS),
        ),
        Grouping(
            "hhgq8lev",
            attribute,
            HHGQ.levels,
            (0,) * before + tuple(seven),
            HHGQ.title,
            HHGQ.labels,
        ),
        Grouping(
            major.name,
            attribute,
            major.groups,
            (0,) * before + tuple(major.index[i] for i in seven),
            major.title,
            major.labels,
        ),
    )
