"""A run that stops within a level goes on; what cannot be drawn again is named, asked for and
counted; and nothing that was altered meanwhile is gone on with.

That it may be killed before any write, in every publication, is in tests/truth/test_interruptions.py,
and that it may stop at every step, in tests/contract/test_interruption.py."""

from __future__ import annotations

import shutil
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das import spec
from das.errors import ReleaseError, UserError
from das.files.measurements import nmf
from das.files.run.ledger import Entries, LedgerFile
from das.files.simulators import census_2010 as simulate_2010
from das.model.ledger import Event
from das.release import verify
from das.release.outcome import Outcome
from das.runs import pipeline
from tests.commands import Commands
from tests.worlds import ROOT, Worlds


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, worlds: Worlds) -> tuple[Path, Path]:
    """A configuration and a very small extract."""
    config = tmp_path_factory.mktemp("world") / "config.toml"
    text = (ROOT / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    text = text.replace(
        'spine = "optimized"', 'spine = "tabulation"'
    )  # every level is measured, and its lines add up
    config.write_text(
        text + "\n[output]\nreport = false\ntables = false\n"
    )  # after everything that counts here
    return config, worlds.data("one thousand")


def name(event: Event) -> tuple[str, ...]:
    return event.universe, event.level, event.query


def entries(out: Path) -> Entries:
    return LedgerFile(out / "release" / "ledger.jsonl").entries


def begun(out: Path) -> list[Event]:
    return [e for a in entries(out).attempts for e in a.events]


def being_drawn(out: Path) -> list[Event]:
    """What is spent for nothing when the run cannot be resumed with the same noise, and was not
    given up before.
    """
    told = entries(out)
    return [e for a in told.last().values() if not told.whole(a.stage) for e in a.events]


def plan_cost(config: Path) -> Fraction:
    return sum(
        (u.plan.cost for u in spec.parse(config.read_text(), where="c").universes), Fraction(0)
    )


class Stopped(Exception):
    pass


def go(world: tuple[Path, Path], out: Path, *changes: str, **how: Any) -> Outcome:
    config, data = world
    parsed = spec.parse(config.read_text(), where="c", overrides=changes)
    return pipeline.run(parsed, out, paths=[how.pop("data", data)], **how)


SEED = "run.seed=5"
FORGETFUL = "run.entropy=forgetful"


def stopped(world: tuple[Path, Path], out: Path, *changes: str) -> Path:
    """A run that stopped within the tracts of the first universe, its states among what is done."""
    real = nmf.write

    def write(
        root: Path,
        level: str,
        schema: Any,
        spine: Any,
        measurements: Any,
        subtree: int,
        **more: Any,
    ) -> dict[str, str]:
        if level == "Tract":
            next(iter(measurements))
            raise Stopped
        return real(root, level, schema, spine, measurements, subtree, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nmf, "write", write)
        with pytest.raises(Stopped):
            go(world, out, *changes)
    return out


@pytest.fixture(scope="module")
def seeded(world: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stopped(world, tmp_path_factory.mktemp("seeded") / "run", SEED)


@pytest.fixture
def interrupted(seeded: Path, tmp_path: Path) -> Path:
    """A seeded one, to be altered."""
    return Path(shutil.copytree(seeded, tmp_path / "stopped"))


def measurements(out: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted((out / "release").glob("nmf*/**/*.parquet"))
        if p.is_file()
    }


def test_without_its_key_a_run_loses_what_was_being_drawn(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    """Levels that are measured completely lose nothing. Lost draws are named, with their cost,
    before they are spent again, and they are in the statement."""
    out = stopped(world, tmp_path / "run")
    (out / "confidential" / "noise.key").unlink()
    gone = being_drawn(out)
    assert {e.level for e in gone} & {"US", "State", "Tract", "Block"} == {
        "US",
        "State",
        "Tract",
        "Block",
    }
    assert not [e for e in gone if (e.universe, e.level) == ("persons", "State")]
    cost = sum((e.cost for e in gone), Fraction(0))
    kept = {k: v for k, v in measurements(out).items() if "nmf/State" in k}
    with pytest.raises(
        UserError, match=r"persons at Tract.*the key that it follows from is gone"
    ) as caught:
        go(world, out, resume=True)
    assert f"its budget of {cost} " in str(caught.value)
    go(world, out, resume=True, accept_spent=True)
    said = verify.statement(out / "release")
    assert said.total == plan_cost(world[0]) + cost
    assert Counter(map(name, gone)) == Counter(map(name, said.lost))
    assert {k: v for k, v in measurements(out).items() if k in kept} == kept != {}


def test_a_run_that_forgets_loses_the_level_that_was_being_drawn(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    """And a torn last line of its ledger is no draw."""
    out = stopped(world, tmp_path / "run", FORGETFUL)
    assert not (out / "confidential" / "noise.key").exists()
    assert {(e.universe, e.level) for e in being_drawn(out)} == {("persons", "Tract")}
    with pytest.raises(UserError, match=r"persons at Tract was interrupted.*no key of it was kept"):
        go(world, out, FORGETFUL, resume=True)
    path = out / "release" / "ledger.jsonl"
    whole, events = path.read_bytes(), begun(out)
    path.write_bytes(whole + b'{"draw": {"universe": "pers')
    assert begun(out) == events
    go(world, out, FORGETFUL, resume=True, accept_spent=True)
    assert path.read_bytes().startswith(whole + b'{"begin"')
    said = verify.statement(out / "release")
    assert {(x.universe, x.level) for x in said.lost} == {("persons", "Tract")}
    assert said.total == plan_cost(world[0]) + sum(x.cost for x in said.lost)


@pytest.mark.parametrize(
    "old,new",
    [
        ('"rho": "', '"rho": "1/3'),
        ('"query": "total"', '"query": "nothing"'),
        ('"sigma_sq": "', '"sigma_sq": "1'),
        ('{"draw"', '{"drew"'),
        ('{"draw"', '"draw"'),
        ('"units": ', '"units": 1'),
    ],
)
def test_an_altered_ledger_is_refused(
    world: tuple[Path, Path], interrupted: Path, old: str, new: str
) -> None:
    path = interrupted / "release" / "ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    at = max(
        i for i, line in enumerate(lines) if old in line
    )  # of the attempt that was lost, where there is one
    lines[at] = lines[at].replace(old, new, 1)
    path.write_text("".join(lines))
    with pytest.raises(ReleaseError, match=r"ledger\.jsonl"):
        go(world, interrupted, SEED, resume=True)
    assert not (interrupted / "release" / "privacy.json").exists()


def test_a_kept_level_must_have_all_its_draws(world: tuple[Path, Path], interrupted: Path) -> None:
    path = interrupted / "release" / "ledger.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    del lines[next(i for i, line in enumerate(lines) if '"draw"' in line)]
    path.write_text("".join(lines))
    with pytest.raises(ReleaseError, match="US"):
        go(world, interrupted, SEED, resume=True)


def test_altered_measurements_are_not_resumed_from(
    world: tuple[Path, Path], interrupted: Path
) -> None:
    path = next(
        p
        for p in (interrupted / "release" / "nmf" / "State.parquet").rglob("*.parquet")
        if p.is_file()
    )
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    with pytest.raises(ReleaseError, match=r"State\.parquet"):
        go(world, interrupted, SEED, resume=True)


def test_another_configuration_or_input_is_refused(
    world: tuple[Path, Path], interrupted: Path, tmp_path: Path
) -> None:
    for changes in (("run.seed=6",), (SEED, "budget.rho=1"), ()):
        with pytest.raises(UserError, match="configuration"):
            go(world, interrupted, *changes, resume=True, accept_spent=True)
    simulate_2010.write(tmp_path / "data", seed=2, states=1, persons=1000)
    with pytest.raises(UserError, match="input"):
        go(world, interrupted, "run.seed=5", data=tmp_path / "data", resume=True, accept_spent=True)


def test_accept_spent_alone_is_refused(
    world: tuple[Path, Path], commands: Commands, tmp_path: Path
) -> None:
    config, data = world
    told = commands.named("run")(
        config, "--data", data, "--out", tmp_path / "run", "--accept-spent"
    )
    assert told[0] == 2
    assert "--resume" in told[2]
    assert not (tmp_path / "run").exists()
