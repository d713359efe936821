"""A run that is killed while it measures never leads to a release that claims less than was drawn.

A server process imports everything and reads the input once. Each attempt is a fork of it that runs
the command line. It logs what it is about to draw and from which stream, and is killed with SIGKILL
at a random moment. Keyed noise is drawn again and is the same; from a source that keeps nothing,
the current draws are lost."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from das import pipeline, spec
from das.errors import ReleaseError, UserError
from das.files.measurements import nmf
from das.files.run.ledger import Entries, LedgerFile, folder_digest
from das.files.simulators import census_2010 as simulate_2010
from das.model.ledger import Event
from das.release import verify
from das.release.outcome import Outcome

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork on this system")
#: At random moments; at each step there is, in tests/truth/test_bookkeeping.py and
#: tests/contract/test_interruption.py.
KILLS = {"keyed": 15, "forgetful": 10}
RESUMED = 5  # in the midst of measuring

SERVER = """
import json, os, signal, sys, time
from pathlib import Path
import das.cli.running, das.release.public_counts  # or each attempt would load them
from das.noise import answers
from das.making import counts
from das.truth import by_subtree, measuring, preparation
from das import spec
from das.accounting import guarantee
from das.accounting.worst import WorstLoss
from das.cli import main
from das.engine import Silent
from das.files.run import errors_csv
from das.noise import entropy
from das.report import privacy
from das.stages import Stages

config, data = sys.argv[1:3]
prepared = preparation.prepare(spec.parse(Path(config).read_text(), where=config), [Path(data)], Stages(), Silent())
counts.prepare = lambda *_, **__: prepared
guarantee.worst_epsilon = lambda found, _: WorstLoss(0.0, 0.0, (0,) * len(found))  # epsilon has its own tests; here it is what was drawn that counts
privacy._curve = lambda _: ""  # nor is it what a page shows, or how good the counts are
by_subtree.assess_release = lambda spec, *more: {u.name: written(more[1], u.name) for u in spec.universes}
real_draw, real_noise, real_mark, now, log, nap = measuring.draw, answers._noise, entropy._Keyed.mark, ["", ""], [None], [0.0]

def written(directory, universe):
    errors_csv.write(directory.errors_of(universe), [])
    return []

def drawn(truth, level, universe, *rest):
    now[0] = universe
    yield from real_draw(truth, level, universe, *rest)

def mark(self, label):
    now[1] = real_mark(self, label)
    return now[1]

def noise(draw, size, entropy):
    os.write(log[0], (json.dumps([now[0], draw.level, draw.query, now[1]]) + "\\n").encode())
    os.fsync(log[0])
    time.sleep(nap[0])
    return real_noise(draw, size, entropy)

measuring.draw, answers._noise, entropy._Keyed.mark = drawn, noise, mark
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        log[0] = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        nap[0] = order["nap"]
        said = os.open(order["said"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(said, 1), os.dup2(said, 2)
        try:
            main(["run", config, "--data", data, "--quiet", "--workers", "1", *order["args"]])
        except SystemExit as end:
            os._exit(int(end.code or 0))
        os._exit(0)
    if order["after"] is not None:
        while order["drawing"] and not os.path.exists(order["log"]) and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
            time.sleep(0.002)
        time.sleep(order["after"])
        os.kill(child, signal.SIGKILL)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Runner:
    """Attempts at runs, each in a process of its own."""

    def __init__(self, folder: Path, config: Path, data: Path) -> None:
        self.log, self.said = folder / "drawn.jsonl", folder / "said"
        script = folder / "server.py"
        script.write_text(SERVER)
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(config), str(data)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._line() == "ready\n"

    def _line(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def __call__(
        self,
        out: Path,
        *args: str,
        after: float | None = None,
        drawing: bool = False,
        nap: float = 0.0,
    ) -> int:
        """The exit code; -9 if the attempt was killed ``after`` this many seconds, from the first
        draw (``drawing``).
        """
        assert self.process.stdin is not None
        order = {
            "args": ["--out", str(out), *args],
            "after": after,
            "drawing": drawing,
            "nap": nap,
            "log": str(self.log),
            "said": str(self.said),
        }
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self._line())

    def drawn(self) -> Counter[tuple[str, ...]]:
        """What attempts have announced that they draw, since the log was last removed: universe,
        level, query, stream.
        """
        lines = self.log.read_bytes().split(b"\n")[:-1] if self.log.exists() else []
        return Counter(tuple(json.loads(line)) for line in lines)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, root: Path) -> tuple[Path, Path]:
    """A configuration and a very small extract."""
    folder = tmp_path_factory.mktemp("world")
    simulate_2010.write(folder / "data", seed=1, states=1, persons=1000)
    config = folder / "config.toml"
    text = (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")
    text = text.replace(
        'spine = "optimized"', 'spine = "tabulation"'
    )  # every level is measured, and its lines add up
    config.write_text(
        text + "\n[output]\nreport = false\ntables = false\n"
    )  # after everything that counts here
    return config, folder / "data"


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, world: tuple[Path, Path]) -> Iterator[Runner]:
    made = Runner(tmp_path_factory.mktemp("runner"), *world)
    yield made
    made.process.communicate(timeout=20)  # closes its input, waits, and closes its output


def name(line: Any) -> tuple[str, ...]:
    if isinstance(line, Event):
        return line.universe, line.level, line.query
    return line["universe"], line["level"], line["query"]


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


def check_finished(out: Path, config: Path) -> None:
    privacy = json.loads((out / "release" / "privacy.json").read_text())
    spent = sum((e.cost for a in entries(out).lost() for e in a.events), Fraction(0))
    assert Fraction(privacy["rho"]["total"]) == plan_cost(config) + spent
    stated = [*privacy["ledger"], *privacy["spent_by_interrupted_attempts"]]
    assert Counter(map(name, stated)) == Counter(map(name, begun(out)))
    assert sum((Fraction(x["rho"]) for x in stated), Fraction(0)) == Fraction(
        privacy["rho"]["total"]
    )
    assert len(verify.check(out / "release")) == len(privacy["ledger"])
    assert not list(out.rglob("*.key"))
    assert not list(out.rglob(".*.tmp"))


@pytest.mark.parametrize("kind", KILLS)
def test_many_kills(kind: str, runner: Runner, world: tuple[Path, Path], tmp_path: Path) -> None:
    rng = random.Random(2020)
    killed = resumed = 0
    number = 0
    how = ["--set", f"run.entropy={kind}"]
    while killed < KILLS[kind] or (resumed < RESUMED and killed < 200):
        number += 1
        out, args = tmp_path / f"run{number}", []
        runner.log.unlink(missing_ok=True)
        for _ in range(rng.randint(1, 4)):
            # half of them in the midst of measuring, however long this machine takes to come to it
            code = runner(
                out,
                *how,
                *args,
                after=rng.uniform(0.02, 0.5),
                drawing=rng.random() < 0.5,
                nap=0.004,
            )
            if code == 0:
                break  # it was quicker than its killer
            assert code == -9, runner.said.read_text()
            killed += 1
            assert {d[:3] for d in runner.drawn()} <= set(map(name, begun(out)))  # never behind
            if (out / "release" / "privacy.json").exists():
                told = json.loads((out / "release" / "privacy.json").read_text())
                assert Fraction(told["rho"]["total"]) >= sum(
                    (e.cost for e in begun(out)), Fraction(0)
                )
            if not (out / "release" / "ledger.jsonl").exists():
                shutil.rmtree(
                    out, ignore_errors=True
                )  # nothing was drawn, and nothing is to be resumed
                assert not runner.drawn()
                continue
            args = ["--resume", *(["--accept-spent"] if kind == "forgetful" else [])]
        gone = being_drawn(out) if out.exists() and not (out / "manifest.json").exists() else []
        resumed += bool(gone)
        if gone and kind == "forgetful":
            before = folder_digest(out)
            assert runner(out, *how, "--resume") == 2
            message = runner.said.read_text()
            assert all(
                word in message for e in gone for word in (e.universe, e.level, "--accept-spent")
            ), message
            assert str(sum((e.cost for e in gone), Fraction(0))) in message
            assert folder_digest(out) == before
        again = ["--resume", *(["--accept-spent"] if gone and kind == "forgetful" else [])]
        again = again if out.exists() else []  # each attempt was killed before it had begun
        assert runner(out, *how, *again) == 0, runner.said.read_text()
        check_finished(out, world[0])
        if (
            kind == "keyed"
        ):  # each draw has been made from one stream, and each stream is of one draw, however often
            streams = [d[:3] for d in runner.drawn()]
            assert len(streams) == len(set(streams)) == len(begun(out))
            assert not entries(out).lost()
        else:
            assert sum((d for d in runner.drawn().values()), 0) <= len(begun(out))
        shutil.rmtree(out)
    assert resumed >= RESUMED  # the test has met what it is for, on a machine of any speed


# --- without a kill: failures at chosen places
# ----------------------------------------------------------------------


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


@pytest.fixture
def interrupted(world: tuple[Path, Path], tmp_path: Path) -> Path:
    """A seeded one."""
    return stopped(world, tmp_path / "stopped", SEED)


def measurements(out: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(out)): p.read_bytes()
        for p in sorted((out / "release").glob("nmf*/**/*.parquet"))
        if p.is_file()
    }


def test_a_seeded_run_that_was_interrupted_gives_the_same_measurements_and_loses_nothing(
    world: tuple[Path, Path], interrupted: Path, tmp_path: Path
) -> None:
    go(world, interrupted, SEED, resume=True)
    go(world, tmp_path / "whole", SEED)
    assert measurements(interrupted) == measurements(tmp_path / "whole") != {}
    ledger = (interrupted / "release" / "ledger.jsonl").read_bytes()
    assert ledger == (tmp_path / "whole" / "release" / "ledger.jsonl").read_bytes()
    go(world, tmp_path / "other", "run.seed=6")
    assert measurements(tmp_path / "other") != measurements(tmp_path / "whole")
    finished = measurements(interrupted)
    go(world, interrupted, SEED, resume=True)  # a run that is finished draws nothing
    assert measurements(interrupted) == finished
    assert (interrupted / "release" / "ledger.jsonl").read_bytes() == ledger
    verify.check(interrupted / "release")


def test_a_run_that_was_interrupted_goes_on_at_no_cost(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    """Nothing is asked, the statement knows of one draw of everything, and all of it can be
    verified.
    """
    out = stopped(world, tmp_path / "run")
    assert (out / "confidential" / "noise.key").exists()
    assert [e.level for e in being_drawn(out)]
    go(world, out, resume=True)
    said = verify.statement(out / "release")
    assert (said.lost, said.total) == ((), plan_cost(world[0]))
    assert "HMAC-SHA256 under a run key" in said.entropy
    assert not (out / "confidential" / "noise.key").exists()


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
    assert Counter(map(name, gone)) == Counter((x.universe, x.level, x.query) for x in said.lost)
    assert {k: v for k, v in measurements(out).items() if k in kept} == kept != {}


def test_a_run_that_forgets_loses_the_level_that_was_being_drawn(
    world: tuple[Path, Path], tmp_path: Path
) -> None:
    out = stopped(world, tmp_path / "run", FORGETFUL)
    assert not (out / "confidential" / "noise.key").exists()
    assert {(e.universe, e.level) for e in being_drawn(out)} == {("persons", "Tract")}
    with pytest.raises(UserError, match=r"persons at Tract was interrupted.*no key of it was kept"):
        go(world, out, FORGETFUL, resume=True)
    go(world, out, FORGETFUL, resume=True, accept_spent=True)
    said = verify.statement(out / "release")
    assert {(x.universe, x.level) for x in said.lost} == {("persons", "Tract")}
    assert said.total == plan_cost(world[0]) + sum(x.cost for x in said.lost)


def test_a_torn_last_line_is_not_a_draw(world: tuple[Path, Path], tmp_path: Path) -> None:
    out = stopped(world, tmp_path / "run", FORGETFUL)
    path = out / "release" / "ledger.jsonl"
    whole, events = path.read_bytes(), begun(out)
    path.write_bytes(whole + b'{"draw": {"universe": "pers')
    assert begun(out) == events
    go(world, out, FORGETFUL, resume=True, accept_spent=True)
    assert path.read_bytes().startswith(whole + b'{"begin"')
    verify.check(out / "release")


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


def test_accept_spent_alone_is_refused(runner: Runner, tmp_path: Path) -> None:
    assert runner(tmp_path / "run", "--accept-spent") == 2
    assert "--resume" in runner.said.read_text()
    assert not (tmp_path / "run").exists()
