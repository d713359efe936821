"""Kept epsilons are those that would be computed, and are never believed where a release is
verified."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace

import pytest

from das.accounting import kept, profile
from das.accounting.draws import Differing, changed
from das.accounting.worst import WorstLoss
from das.files import kept_epsilons
from das.register.book import Cap
from das.release import verify
from das.spec import parse
from docs.kept import computed
from tests.worlds import ROOT

CONFIG = ROOT / "configs" / "pl94-2010.toml"
DELTA = Fraction("1e-10")


@pytest.fixture
def persons() -> Differing:
    text = CONFIG.read_text(encoding="utf-8")
    return changed(parse(text, where="c").universes[0].plan)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder of kept values, and nothing that comes with the package; nor what other
    tests have computed."""
    monkeypatch.setattr(kept, "_computed", kept._computed.__wrapped__)
    monkeypatch.setattr(kept_epsilons, "use", kept_epsilons.use.__wrapped__)
    monkeypatch.setenv(kept_epsilons.FOLDER, str(tmp_path / "cache"))
    monkeypatch.setenv(kept_epsilons.WITHOUT, "1")
    before = kept.KEEPER.get()
    _another_process()
    yield tmp_path / "cache"
    kept.KEEPER.set(before)


def _another_process() -> None:
    kept._computed.cache_clear()
    kept_epsilons.use()


def _search_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_search(differing: Differing, delta: Fraction) -> WorstLoss:
        raise AssertionError("it was computed")

    monkeypatch.setattr(profile, "worst_epsilon", no_search)


def test_the_package_has_what_its_commands_compute() -> None:
    """What is not in the package, or another number, means: ``python -m docs.kept``."""
    asked = [["account", "dhc-2020"], ["run", "pl94-2010", "--out", "r"]]
    packaged = kept_epsilons._packaged()
    for key, at in computed(asked).items():
        known = packaged[key]
        assert (known.low, known.high) == pytest.approx((at.low, at.high), rel=1e-9, abs=0)
        assert known.low <= at.high
        assert at.low <= known.high
        assert known.at == at.at


def test_a_value_is_computed_once(
    persons: Differing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = kept.worst_epsilon(persons, DELTA)
    assert first == profile.worst_epsilon(persons, DELTA)
    _another_process()
    _search_fails(monkeypatch)
    assert kept.worst_epsilon(persons, DELTA) == first
    with pytest.raises(AssertionError, match="computed"):
        kept.worst_epsilon(persons, DELTA / 2)
    with pytest.raises(AssertionError, match="computed"):
        kept.worst_epsilon(tuple(part.scaled(Fraction(2)) for part in persons), DELTA)
    with pytest.raises(AssertionError, match="computed"), kept.recomputed():
        kept.worst_epsilon(persons, DELTA)


def test_names_of_paths_decide_nothing_and_every_number_does(persons: Differing) -> None:
    (part,) = persons
    key = kept.key(persons, DELTA)
    assert kept.key((replace(part, names=tuple(() for _ in part.names)),), DELTA) == key
    others = [
        (part.scaled(Fraction(3, 2)),),
        (part.times(2),),
        (part.alike(2),),
        (replace(part, moves=part.moves[::-1] if len(part.moves) > 1 else ((0,),)),),
        (part, part),
        (replace(part, shifted=((Fraction(1, 2), 2, 1),)),),
    ]
    keys = [key, *(kept.key(other, DELTA) for other in others), kept.key(persons, DELTA / 2)]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize("damage", ["cut", "altered", "binary"])
def test_a_damaged_line_is_not_read(persons: Differing, folder: Path, damage: str) -> None:
    at = kept.worst_epsilon(persons, DELTA)
    path = kept_epsilons.user_file()
    whole = path.read_bytes()
    path.write_bytes(
        {
            "cut": whole[: len(whole) // 2],
            "altered": whole.replace(str(at.high).encode(), b"1.0"),
            "binary": b"\xff\xfe" + whole,
        }[damage]
    )
    assert path.read_bytes() != whole
    _another_process()
    assert kept_epsilons.written_in(path) == {}
    assert kept.worst_epsilon(persons, DELTA) == at


def test_a_folder_that_cannot_be_written_keeps_nothing(
    persons: Differing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.write_text("a file")
    assert kept.worst_epsilon(persons, DELTA) == profile.worst_epsilon(persons, DELTA)
    assert folder.read_text() == "a file"


def test_verification_computes_again(
    persons: Differing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever verifies does not take a number from a file that somebody could have altered."""
    seen: list[bool] = []

    def looked(release: Path, other: bool) -> None:
        seen.append(kept.KEEPER.get() is None)

    monkeypatch.setattr(verify.whole, "_verified", looked)
    monkeypatch.setattr(verify.whole, "require_plain", lambda release: None)
    monkeypatch.setattr(verify.whole.privacy_statement, "read_ours", lambda release: None)
    verify.whole.verified(folder)
    assert seen == [True]
    assert kept.KEEPER.get() is not None


def test_a_cap_is_held_against_what_is_computed(
    persons: Differing, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kept value of the user's file that is too small does not open the cap."""
    true = kept.worst_epsilon(persons, DELTA)
    keeper = kept.KEEPER.get()
    assert keeper is not None
    keeper[kept.key(persons, DELTA)] = WorstLoss(0.0, 0.1, true.at)
    assert kept.worst_epsilon(persons, DELTA).high == 0.1
    cap = Cap("epsilon", Fraction(100), DELTA)
    spending = SimpleNamespace(
        alone=False, epsilon=Fraction(0), rho=persons[0].rho, differing=persons
    )
    assert cap.spent([spending]) == Fraction(true.high)  # type: ignore[list-item]


def test_the_value_of_the_package_is_taken_before_that_of_the_user(
    persons: Differing, tmp_path: Path
) -> None:
    key, known = next(iter(kept_epsilons._packaged().items()))
    mine = kept_epsilons.KeptEpsilons(tmp_path / "mine")
    mine[key] = WorstLoss(0.0, 0.1, known.at)
    assert kept_epsilons.KeptEpsilons(tmp_path / "mine")[key] == known
