"""Altered input of the S-DHC and of studies of protection, and of the folder of a study; copies to
a store whose connection is cut."""

from __future__ import annotations

import os
import shutil
import tomllib
from pathlib import Path
from random import Random
from unittest import mock

import tomli_w

from benchmarks.common import ROOT
from benchmarks.fuzz import mutate
from benchmarks.fuzz.inputs import linked_to, own
from benchmarks.fuzz.judge import Verdict, call, command
from das import spec as specification
from das.engine.tasks import SILENT
from das.files import store
from das.runs.protocol import RunInput, outlook_of
from das.tools.protection.truth import study_input
from das.tools.protection.truth.study import load_study
from tests.jobs import frontier_small
from tests.s3 import Line, running
from tests.sdhc.folders import made_up


class SDhc:
    """Records as PHSafe reads them."""

    def __init__(self, folder: Path) -> None:
        self._folder = made_up(1, 60).write(folder / "phsafe")
        text = (ROOT / "configs" / "sdhc-2020.toml").read_text(encoding="utf-8")
        self._spec = specification.load(text, where="s-dhc")

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        here = linked_to(self._folder, at / "phsafe")
        path = rng.choice(sorted(here.iterdir()))
        path.write_bytes(mutate.altered(own(path), rng))
        asked = f"read; altered {path.name}"
        return call(lambda: outlook_of(self._spec, RunInput((here,)))), asked


class Study:
    """A study, its records, or the folder of one that was made, which then goes on."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        frontier_small.write(folder)
        (folder / "study.toml").unlink()
        verdict, _ = command(self._run(folder))
        assert verdict.ended == "right", verdict.said

    @staticmethod
    def _run(at: Path) -> list[str]:
        words = ["frontier", str(at / "short.toml"), "--out", str(at / "out")]
        return [*words, "--workers", "1", "--quiet"]

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        shutil.copytree(self._folder, at, dirs_exist_ok=True)
        study = at / "short.toml"
        text = study.read_text(encoding="utf-8").replace(str(self._folder), str(at))
        study.write_text(text, encoding="utf-8")
        what = rng.choice(("study", "study", "records", "folder"))
        if what == "folder":
            path = rng.choice(sorted(p for p in (at / "out").rglob("*") if p.is_file()))
            path.write_bytes(mutate.altered(path.read_bytes(), rng))
            verdict, _ = command(self._run(at))
            return verdict, f"go on; altered {path.relative_to(at)}"
        if what == "records":
            path = at / "people.csv"
            path.write_bytes(mutate.altered(path.read_bytes(), rng))
        elif rng.random() < 0.5:
            study.write_bytes(mutate.altered(text.encode(), rng))
        else:
            try:
                study.write_text(tomli_w.dumps(mutate.tree(tomllib.loads(text), rng)), "utf-8")
            except (TypeError, UnicodeEncodeError):  # no TOML
                study.write_text("[study", "utf-8")

        def read() -> None:
            found = load_study(study)
            study_input.sample(study_input.read(found.spec, found.schema, SILENT), found.spec)

        return call(read), f"read; altered {what}"


class Stores:
    """A finished run that is carried to S3 and back while the connection is cut after so many
    bytes. What cannot be carried is refused, and carried the next time."""

    def __init__(self, run: Path) -> None:
        self._run = run

    def __call__(self, rng: Random, at: Path) -> tuple[Verdict, str]:
        run, there, back = linked_to(self._run, at / "run"), "bucket/x", at / "back"
        most = int(2 ** rng.uniform(8, 19))
        asked, pull = f"store push and pull, cut after {most:,} bytes", rng.random() < 0.3
        with mock.patch.object(store, "PAUSES", ()), running() as s3:
            s3.bucket("bucket")
            line = Line(s3.port)
            url = s3.url(there, line.port)
            both = (["push", str(run), url], ["pull", url, str(back)])
            for words in both:
                stopped = words[0] == ("pull" if pull else "push")
                line.cut_after(most if stopped else None)
                verdict = _failed(command(["store", *words, "--quiet"])[0])
                if verdict.fault or (verdict.ended == "refused" and not stopped):
                    return verdict, asked
                if verdict.ended == "refused" and (back.exists() or [*at.glob(".*")]):
                    return Verdict("refused, and left something", verdict.said), asked
                line.cut_after(None)
                if (
                    verdict.ended == "refused"
                    and (again := command(["store", *words, "--quiet"])[0]).ended != "right"
                ):
                    return Verdict("does not go on", again.said), asked
            line.close()
            right = _bytes(run / "release") == _bytes(back) == s3.objects(there)
        return Verdict("right" if right else "other bytes"), asked


def _failed(verdict: Verdict) -> Verdict:
    """A store that does not answer is no fault of the user's: the exit code is 3."""
    return Verdict("refused", verdict.said) if verdict.ended == "exit 3" else verdict


def _bytes(folder: Path) -> dict[str, bytes]:
    return {
        os.path.relpath(p, folder): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()
    }
