"""The methods by the names that a study gives them. A table of a study becomes a method by
:func:`das.spec.settings.built`; a file has a method of your own (:mod:`das.tools.protection.truth.method`)."""

from __future__ import annotations

from das.plugins import Plugins
from das.tools.protection.truth.method import ProtectionMethod

#: The methods' classes by their names, in the order of pages.
METHODS: Plugins[type[ProtectionMethod]] = Plugins(
    "das.protection_methods",
    "protection method",
    ProtectionMethod,
    (
        "none",
        "swapping",
        "permutation-swapping",
        "cell-key",
        "rounding",
        "coarsening",
        "suppression",
        "topdown",
    ),
    classes=True,
)
