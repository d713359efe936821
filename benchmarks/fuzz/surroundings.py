"""Adverse machines: a full disk, a read-only folder, too little memory, no HOME, another locale,
closed streams, a clock that was set back, files of another user. Two runs in one folder and ``--resume`` of another run
are covered, too. Each case is a process."""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from benchmarks.common import ROOT
from benchmarks.fuzz.inputs import linked_to
from benchmarks.fuzz.judge import LONGEST, Verdict

WHOLE = 600
_NOBODY = 65534
#: Another environment. ``None`` takes a variable away.
ENVIRONMENTS: tuple[dict[str, str | None], ...] = (
    {"HOME": None},
    {"HOME": "/nonexistent"},
    {"HOME": "/dev/null", "XDG_CACHE_HOME": "/dev/null"},
    {"TMPDIR": "/nonexistent"},
    {"MPLCONFIGDIR": "/dev/null"},
    {"LC_ALL": "C"},
    {"LC_ALL": "POSIX", "PYTHONUTF8": "0"},
    {"LC_ALL": "tr_TR.UTF-8"},
    {"LC_ALL": "xx_YY"},
    {"PYTHONIOENCODING": "ascii"},
    {"PYTHONIOENCODING": "latin-1"},
    {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    {"LC_ALL": "de_DE.UTF-8"},
    {"LC_ALL": "de_DE.UTF-8", "PYTHONUTF8": "0"},
    {"TZ": "No/Where"},
    {"TZ": "Pacific/Kiritimati"},
    {"COLUMNS": "1"},
    {"COLUMNS": "x", "LINES": "-1"},
    {"TERM": ""},
    {"PATH": ""},
    {"OMP_NUM_THREADS": "x"},
    {"PYTHONWARNINGS": "error::SyntaxWarning"},
    {"NO_COLOR": "1", "FORCE_COLOR": "1"},
)


class Surroundings:
    """Short commands on a run of one's own table, in a copy. Locales are made in ``folder``."""

    def __init__(self, run: Path, config: str, people: str, folder: Path) -> None:
        self._run, self._config, self._people = run, config, people
        self._locales = {"LOCPATH": str(folder)} if made_locales(folder) else {}

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        linked_to(self._run, at / "run")
        (at / "c.toml").write_text(self._config, encoding="utf-8")
        (at / "people.csv").write_text(self._people, encoding="utf-8")
        kind = rng.choice(
            (
                self._environment,
                self._environment,
                self._limits,
                self._limits,
                self._streams,
                self._clock,
                self._twice,
                self._foreign,
                self._stranger,
            )
        )
        verdict, asked = kind(rng, at)
        left = at / "new"
        if (
            verdict.ended == "refused"
            and left.exists()
            and not (left / "release" / "ledger.jsonl").exists()
        ):
            return Verdict("refused, and left something", verdict.said), asked
        return verdict, asked

    # --- what is asked
    # -----------------------------------------------------------------------------------------------

    @staticmethod
    def _asked(rng: Random) -> list[str]:
        return rng.choice(
            (
                ["run", "c.toml", "--out", "new"],
                ["run", "c.toml", "--out", "new", "--workers", "2"],
                ["estimate", "--from", "run", "--out", "new"],
                ["estimate", "--from", "run", "--out", "new", "--workers", "2"],
                ["intervals", "run", "--replicates", "2"],
                ["tables", "run", "--table", "T1", "--level", "Country"],
                ["tables", "run", "--table", "T1", "--level", "Country", "--out", "x.csv"],
                ["account", "verify", "run"],
                ["account", "run"],
                ["evaluate", "run"],
                ["check", "c.toml"],
                ["plan", "c.toml"],
                ["run", "status", "run"],
                ["nmf", "summary", "run"],
                ["init", "--from", "people.csv", "--out", "x.toml"],
                ["run", "c.toml", "--out", "new", "--resume"],
                ["sweep", "c.toml", "--rho", "1", "--out", "swept"],
                ["frontier", "init", "--data", "people.csv", "--out", "study.toml"],
                ["register", "init", "office.register", "--cap-rho", "8"],
                ["account", "run", "c.toml"],
                ["--help"],
                ["store", "push", "run", "file:///dev/null/x"],
                [
                    "data",
                    "simulate",
                    "1940",
                    "--out",
                    "sim",
                    "--persons",
                    "1000",
                    "--states",
                    "1",
                    "--seed",
                    "1",
                ],
            )
        )

    def _environment(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        changes, words = rng.choice(ENVIRONMENTS), self._asked(rng)
        changed = os.environ | self._locales | changes
        env = {k: v for k, v in changed.items() if v is not None}
        return _ended(_started(words, at, env=env)), f"{' '.join(words)}, with {changes}"

    def _limits(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        """Files that cannot be longer stand for a disk that is full."""
        name, most = rng.choice(
            (
                ("FSIZE", rng.choice((0, 100, 5000, 100_000))),
                ("AS", rng.randrange(150, 1500) << 20),
                ("NOFILE", rng.randrange(5, 60)),
            )
        )
        limit, words = getattr(resource, f"RLIMIT_{name}"), self._asked(rng)
        done = _started(words, at, before=lambda: resource.setrlimit(limit, (most, most)))
        return _ended(done), f"{' '.join(words)}, {name} at most {most:,}"

    def _streams(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        words, closed = self._asked(rng), rng.choice(((0,), (1,), (0, 1), (0, 1, 2), (2,)))
        return (
            _ended(_started(words, at, before=lambda: _close(closed))),
            f"{' '.join(words)}, without {closed}",
        )

    def _clock(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        """What is there was written tomorrow, or in 1970."""
        when, words = rng.choice((time.time() + 86_400, 0.0, 2.0**33)), self._asked(rng)
        for path in (at / "run").rglob("*"):
            if path.is_file():
                shutil.copyfile(path, copy := path.with_name(f"{path.name}.copy"))
                copy.replace(path)
            os.utime(path, (when, when))
        return _ended(_started(words, at)), f"{' '.join(words)}, files of {when:.0f}"

    def _twice(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        """Of two runs in one folder one ends right, the other right or with a refusal; what is
        there is one release.
        """
        words = rng.choice(
            (
                ["run", "c.toml", "--out", "new"],
                ["estimate", "--from", "run", "--out", "new"],
                ["intervals", "run", "--replicates", "2"],
            )
        )
        first = _started(words, at)
        time.sleep(rng.choice((0, 0, 0.2, 1, 3)))
        ended = [_ended(p) for p in (first, _started(words, at))]
        asked = f"twice: {' '.join(words)}"
        for verdict in ended:
            if verdict.fault:
                return verdict, asked
        if all(v.ended == "refused" for v in ended):
            return Verdict("both are refused", "\n".join(v.said for v in ended)), asked
        made = "run" if words[0] == "intervals" else "new"
        check = _ended(_started(["account", "verify", made], at))
        return (
            check if check.fault or check.ended == "right" else Verdict("is no release", check.said)
        ), asked

    def _foreign(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        """``--resume`` in a folder of something else changes nothing there."""
        there = rng.choice(("run", "run/release", "other", "c.toml", "people.csv"))
        if there == "other":
            (at / "other").mkdir()
            (at / "other" / "mine.txt").write_text("mine", encoding="utf-8")
        change = rng.choice(
            (["--set", "budget.rho=3"], ["--set", "run.name=other"], ["--set", "run.seed=3"])
        )
        words = ["run", "c.toml", *change, "--out", there, "--resume"]
        before = _bytes(at)
        verdict = _ended(_started(words, at))
        if verdict.ended == "right":
            return Verdict("accepted", verdict.said), " ".join(words)
        if _bytes(at) != before:
            return Verdict("refused, and changed something", verdict.said), " ".join(words)
        return verdict, " ".join(words)

    def _stranger(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        """Files and folders that another user owns, who lets nobody else read or write them. An
        administrator without the privilege to pass over that stands for anybody."""
        names = ("run", "run/release", "run/confidential", "run/release/privacy.json", "c.toml")
        whose, words = rng.choice((*names, "people.csv", ".")), self._asked(rng)
        if os.geteuid() or not shutil.which("setpriv"):
            return Verdict("right"), "skipped: nobody here may give a file to another user"
        path, mode = at / whose, rng.choice((0o700, 0o500, 0o000))
        if path.is_file():  # it has other names
            shutil.copyfile(path, copy := path.with_name(f"{path.name}.copy"))
            copy.replace(path)
        path.chmod(mode)
        os.chown(path, _NOBODY, _NOBODY)
        taken = "-dac_override,-dac_read_search,-chown,-fowner"
        try:
            verdict = _ended(_started(words, at, by=("setpriv", f"--bounding-set={taken}")))
        finally:
            os.chown(path, 0, 0)
            path.chmod(0o700)
        return verdict, f"{' '.join(words)}; {whose} is another user's, {mode:o}"


def made_locales(folder: Path) -> bool:
    """German and Turkish ones, which write numbers and change letters otherwise; False where they
    cannot be made."""
    if not shutil.which("localedef"):
        return False
    return all(
        subprocess.run(
            ["localedef", "-i", name, "-f", "UTF-8", str(folder / f"{name}.UTF-8")],
            capture_output=True,
            check=False,
        ).returncode
        == 0
        for name in ("de_DE", "tr_TR")
    )


def _bytes(at: Path) -> dict[str, bytes]:
    return {str(p): p.read_bytes() for p in sorted(at.rglob("*")) if p.is_file()}


def _started(
    words: list[str],
    at: Path,
    *,
    env: dict[str, str] | None = None,
    before: Callable[[], object] | None = None,
    by: Sequence[str] = (),
) -> subprocess.Popen[bytes]:
    env = dict(env if env is not None else os.environ)
    env["PYTHONPATH"] = str(ROOT)
    return subprocess.Popen(
        [*by, sys.executable, "-m", "das", *words],
        cwd=at,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=before,
        start_new_session=True,
    )


def _ended(running: subprocess.Popen[bytes]) -> Verdict:
    try:
        _, err = running.communicate(timeout=WHOLE)
    except subprocess.TimeoutExpired:
        running.kill()
        return Verdict(
            f"took more than {WHOLE} s", running.communicate()[1].decode(errors="replace")
        )
    said = err.decode(errors="replace")
    if "Traceback" in said or "this should not have happened" in said:
        return Verdict(f"crash, exit {running.returncode}", said)
    if running.returncode not in (0, 2):
        return Verdict(f"exit {running.returncode}", said)
    return Verdict("refused" if running.returncode else "right", said[:LONGEST])


def _close(streams: tuple[int, ...]) -> None:
    for n in streams:
        os.close(n)
