"""The methods by the names that a study gives them. A table of a study becomes a method by
:func:`das.spec.settings.built`; a file has a method of your own (:mod:`das.protect.own_method`)."""

from __future__ import annotations

from collections.abc import Mapping

from das.protect.cell_key import CellKey
from das.protect.coarsening import Coarsening
from das.protect.method import ProtectionMethod
from das.protect.permutation import PermutationSwapping
from das.protect.rounding import Rounding
from das.protect.suppression import Suppression
from das.protect.swapping import Swapping
from das.protect.unprotected import Unprotected

#: In the order of pages.
_CLASSES: tuple[type[ProtectionMethod], ...] = (
    Unprotected,
    Swapping,
    PermutationSwapping,
    CellKey,
    Rounding,
    Coarsening,
    Suppression,
)
#: The methods' classes by their names.
METHODS: Mapping[str, type[ProtectionMethod]] = {m.name: m for m in _CLASSES}
