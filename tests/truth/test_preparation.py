"""What the input must say, before anything is measured."""

from __future__ import annotations

from dataclasses import replace

import pytest

from das.engine import Silent
from das.errors import SpecError
from das.model.records import Extract
from das.spec import parse
from das.stages import Stages
from das.truth import preparation
from tests.worlds import ROOT, Worlds


def test_a_prior_of_housing_needs_an_input_that_knows_the_buildings(
    worlds: Worlds, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = parse(
        (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8"),
        where="c",
        overrides=["estimation.prior=housing", "geography.spine=tabulation"],
    )
    data, read = worlds.data("one thousand"), preparation.read

    def without(*given: object, **options: object) -> Extract:
        extract = read(*given, **options)
        return replace(extract, blocks=replace(extract.blocks, structures=None))

    assert (
        preparation.prepare(spec, [data], Stages(), Silent()).spine.levels == spec.geography.levels
    )
    monkeypatch.setattr(preparation, "read", without)
    with pytest.raises(
        SpecError, match=r"estimation\.prior: the input does not say how many housing units"
    ):
        preparation.prepare(spec, [data], Stages(), Silent())
