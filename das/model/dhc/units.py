"""Units: occupied ones by tenure, vacant ones by why, and facilities of group quarters by type; 35
cells.
"""

from __future__ import annotations

from das.model.attribute import Attribute
from das.model.dhc import quarters
from das.model.grouping import Grouping
from das.model.schema import Schema

#: Of an occupied unit.
TENURES = {
    "mortgage": "Owned with a mortgage or a loan",
    "clear": "Owned free and clear",
    "rented": "Rented",
    "no-cash-rent": "Occupied without payment of cash rent",
}
#: Of a vacant one.
VACANCIES = {
    "for-rent": "For rent",
    "rented-not-occupied": "Rented, not occupied",
    "for-sale": "For sale only",
    "sold-not-occupied": "Sold, not occupied",
    "seasonal": "For seasonal, recreational, or occasional use",
    "migrant": "For migrant workers",
    "other-vacant": "Other vacant",
}
#: Tenure as households have it: level ``i`` of :data:`TENURES` is group ``THREE[i]``.
TENURE3 = ("mortgage", "clear", "rented")
TENURE3_LABELS = (*tuple(TENURES.values())[:2], "Rented or occupied without payment of cash rent")
THREE = (0, 1, 2, 2)

_AWAY = (len(VACANCIES), len(quarters.TYPES))
_TENVACGQ = Attribute(
    "tenvacgq",
    (*TENURES, *VACANCIES, *quarters.LEVELS),
    "Tenure, vacancy or group quarters",
    (*TENURES.values(), *VACANCIES.values(), *quarters.LABELS),
)

#: Households of each tenure are the occupied units of it.
TENVACGQ = Schema(
    "tenvacgq",
    (_TENVACGQ,),
    recodes=(
        Grouping(
            "tenure_3lev",
            "tenvacgq",
            (*TENURE3, "not-occupied"),
            (*THREE, *(3,) * sum(_AWAY)),
            "Tenure",
            (*TENURE3_LABELS, "Not occupied, or group quarters"),
        ),
        Grouping(
            "unit_class",
            "tenvacgq",
            ("occupied", "vacant", "group-quarters"),
            (0,) * 4 + (1,) * _AWAY[0] + (2,) * _AWAY[1],
            "Occupancy status",
            ("Occupied", "Vacant", "Group quarters"),
        ),
        Grouping(
            "occupancy_gqlevels",
            "tenvacgq",
            ("occupied", "vacant", *quarters.LEVELS),
            (0,) * 4 + (1,) * _AWAY[0] + tuple(range(2, 2 + _AWAY[1])),
            "Occupancy status or type of group quarters",
            ("Occupied", "Vacant", *quarters.LABELS),
        ),
        *quarters.groupings("tenvacgq", len(TENURES) + len(VACANCIES)),
    ),
)
