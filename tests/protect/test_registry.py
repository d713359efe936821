"""Methods from a table of a study."""

from __future__ import annotations

import pytest

from das.errors import SpecError
from das.spec.tree import built
from das.tools.protection.truth.method import METHODS
from das.tools.protection.truth.methods.cell_key import CellKey
from das.tools.protection.truth.methods.swapping import Swapping
from tests.protect.people import records, tables


def test_parameters_of_a_table() -> None:
    assert built(CellKey, {"D": 5, "V": 2, "js": 2}, "m") == CellKey(5, 2, 2)
    spelled = {"match": ["votingage"], "reach": [1], "rate": 0.1}
    assert built(Swapping, spelled, "m") == Swapping(0.1, ("votingage",), reach=(1,))


@pytest.mark.parametrize("name", [name for name in METHODS if name != "topdown"])
def test_each_method_has_its_name_a_label_and_tables(name: str) -> None:
    given = {"coarsening": {"threshold": 5}}.get(name, {})
    method = built(METHODS[name], given, "m")
    assert method.name == name
    assert method.label
    assert isinstance(method.random, bool)
    shown = method.published(records(), tables(), b"k")
    assert set(shown.levels) == {"Tract", "Block"}


@pytest.mark.parametrize(
    ("name", "given", "message"),
    [
        ("cell-key", {"d": 5}, "d: unknown key"),
        ("none", {"base": 3}, "known keys: none"),
        ("rounding", {"bse": 3}, "did you mean 'base'"),
        ("rounding", {"base": "3"}, "base: Input should be a valid integer"),
        ("rounding", {"base": True}, "base: Input should be a valid integer"),
        ("swapping", {"match": "votingage"}, "match: Input should be a valid tuple"),
        ("swapping", {"reach": ["far"]}, "reach: Input should be a valid number"),
        ("coarsening", {"level": 3}, "level: Input should be a valid string"),
    ],
)
def test_refusals(name: str, given: dict[str, object], message: str) -> None:
    with pytest.raises(SpecError, match=message):
        built(METHODS[name], given, "method 2")
