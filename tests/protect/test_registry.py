"""Methods from a table of a study."""

from __future__ import annotations

import pytest

from das.errors import SpecError
from das.protect.cell_key import CellKey
from das.protect.registry import METHODS, method_of
from das.protect.swapping import Swapping
from tests.protect.people import records, tables


def test_parameters_of_a_table() -> None:
    assert method_of({"method": "cell-key", "D": 5, "V": 2, "js": 2}) == CellKey(5, 2, 2)
    spelled = {"method": "swapping", "match": ["votingage"], "reach": [1], "rate": 0.1}
    assert method_of(spelled) == Swapping(0.1, ("votingage",), reach=(1,))


@pytest.mark.parametrize("name", METHODS)
def test_each_method_has_its_name_a_label_and_tables(name: str) -> None:
    given = {"coarsening": {"threshold": 5}}.get(name, {})
    method = method_of({"method": name, **given})
    assert method.name == name
    assert method.label
    assert isinstance(method.random, bool)
    shown = method.published(records(), tables(), b"k")
    assert set(shown.levels) == {"Tract", "Block"}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "magic"}, "it can be none, swapping"),
        ({}, "method is None"),
        ({"method": "cell-key", "d": 5}, "unknown key 'd'"),
        ({"method": "none", "base": 3}, "it has no key"),
        ({"method": "rounding", "bse": 3}, "do you mean base"),
        ({"method": "rounding", "base": "3"}, "it must be an integer"),
        ({"method": "rounding", "base": True}, "it must be an integer"),
        ({"method": "swapping", "match": "votingage"}, "a list of texts"),
        ({"method": "swapping", "reach": ["far"]}, "a list of numbers"),
        ({"method": "coarsening", "level": 3}, "it must be a text"),
    ],
)
def test_refusals(settings: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        method_of(settings, "method 2")
