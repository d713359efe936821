"""Whole measurement files against their ledger: each query's noise has the moments of its scale,
and no run repeats another's."""

from __future__ import annotations

import json
from fractions import Fraction
from math import sqrt
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from das import spec
from das.accounting import guarantee
from das.accounting.worst import WorstLoss
from das.engine import Silent
from das.files.measurements.nmf_reader import NmfReader
from das.files.run.run_directory import RunDirectory
from das.files.simulators import census_2010 as simulate_2010
from das.model.mechanisms import DISCRETE_GAUSSIAN, GEOMETRIC
from das.publications.counts.truth import maker
from das.runs import pipeline
from das.stages import Stages
from das.truth import preparation

#: By level, query and class of units.
Noise = dict[tuple[str, str, str], NDArray[np.int64]]
KINDS = {
    "bounded": (),
    "unbounded": ("budget.neighbors=unbounded",),
    "geometric": ("budget.mechanism=geometric", "budget.epsilon=4"),
}


@pytest.fixture(scope="module")
def text(root: Path) -> str:
    return (root / "configs" / "pl94-2010.toml").read_text(encoding="utf-8")


def parsed(text: str, kind: str) -> spec.RunSpec:
    if kind == "geometric":
        text = text.replace('rho = "293764/114921"\n', "")
        text = text[: text.index("[housing]")]
    return spec.parse(text, where="c", overrides=KINDS[kind])


@pytest.fixture(scope="module")
def runs(
    text: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, list[tuple[Noise, list[dict[str, str]]]]]:
    """Two unseeded measurements of one extract for each kind: noise by (level, query), and the
    ledger's lines.
    """
    folder = tmp_path_factory.mktemp("runs")
    simulate_2010.write(folder / "data", seed=3, states=1, persons=4500)
    out: dict[str, list[tuple[Noise, list[dict[str, str]]]]] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(maker, "post_process", stop)
        patch.setattr(
            guarantee, "worst_epsilon", lambda found, _: WorstLoss(0.0, 0.0, (0,) * len(found))
        )  # has its own tests
        for kind in KINDS:
            s = parsed(text, kind)
            prepared = preparation.prepare(s, [folder / "data"], Stages(), Silent())
            for number in (1, 2):
                directory = RunDirectory(folder / f"{kind}{number}")
                with pytest.raises(Measured):
                    pipeline.run_prepared(s, prepared, directory.root)
                out.setdefault(kind, []).append(noise_of(s, prepared, directory))
    return out


class Measured(Exception):
    """Measuring is done, and nothing else is wanted."""


def stop(*_: object) -> None:
    raise Measured


def noise_of(
    s: spec.RunSpec, prepared: preparation.Prepared, directory: RunDirectory
) -> tuple[Noise, list[dict[str, str]]]:
    """What the files hold less the truth."""
    tree = prepared.trees["persons"]
    reader = NmfReader(directory.nmf("persons"), tree.spine, tree.measured)
    lines = json.loads((directory.release / "privacy.json").read_text())["ledger"]
    out: Noise = {}
    for line in (x for x in lines if x["universe"] == "persons"):
        level, query, units = (
            line["level"],
            line["query"],
            tree.classes(line["level"])[line["class"]],
        )
        h = prepared.measured["persons"][level].open("to subtract it in a test")
        m = reader.read(level, query, 0, len(units))
        out[level, query, line["class"]] = (m.values - h.answer(s.persons.schema.query(query)))[
            units
        ]
    return out, [x for x in lines if x["universe"] == "persons"]


def variance(line: dict[str, str], factor: Fraction = Fraction(1)) -> float:
    if "sigma_sq" in line:
        return DISCRETE_GAUSSIAN.variance(Fraction(line["sigma_sq"]) * factor)
    return GEOMETRIC.variance(Fraction(line["scale"]) * factor)


def tail(line: dict[str, str]) -> float:
    r"""What few draws of geometric noise may exceed: n of scale b, :math:`\sqrt{2 L \cdot 2 n b^2}
    + L b` in sum with a probability of :math:`2 e^{-L}` (Bernstein), here L = 15 and :math:`b =
    \sigma/\sqrt 2`."""
    return 0.0 if "sigma_sq" in line else 15 / sqrt(2)


def fits(noise: NDArray[np.int64], expected: float, tail: float = 0.0) -> bool:
    """Mean and mean square within five of their own standard errors (of the sample where it is
    large; a fourth moment of at most six variances squared, or that of rare ones, where it is
    small)."""
    x = noise.ravel().astype(float)
    kurtosis = max(3.0, float((x**4).mean()) / expected**2)
    return bool(
        abs(x.mean()) < 5 * sqrt(expected / len(x)) + tail * sqrt(expected) / len(x) + 1e-9
        and abs((x**2).mean() / expected - 1) < 6 * sqrt((kurtosis + 3) / len(x))
    )


@pytest.mark.parametrize("kind", KINDS)
def test_each_level_and_query_has_the_noise_that_the_ledger_says(runs, kind: str) -> None:  # type: ignore[no-untyped-def]
    told_apart = 0
    for noise, lines in runs[kind]:
        assert len(lines) == len(noise) > 65  # of several classes of units
        for line in lines:
            x = noise[line["level"], line["query"], line["class"]]
            assert x.size == int(line["units"]) * int(line["answers"])
            assert fits(x, variance(line), tail(line)), line
            if x.size >= 50_000:
                assert not fits(x, variance(line, Fraction(11, 10))), line
                assert not fits(x, variance(line, Fraction(10, 11))), line
                told_apart += 1
    assert told_apart >= 2  # all cells of all blocks, in both runs


def test_neighbours_set_the_scale(runs) -> None:  # type: ignore[no-untyped-def]
    """Replacing a record costs twice what adding one does: at the same rho, twice the variance."""
    (bounded, _), (unbounded, lines) = runs["bounded"][0], runs["unbounded"][0]
    key = "Block", "detailed", "Block"
    line = next(x for x in lines if (x["level"], x["query"], x["class"]) == key)
    assert fits(bounded[key], variance(line, Fraction(2)))
    assert not fits(bounded[key], variance(line))
    assert fits(unbounded[key], variance(line))


@pytest.mark.parametrize("kind", KINDS)
def test_two_runs_never_share_noise(runs, kind: str) -> None:  # type: ignore[no-untyped-def]
    (a, _), (b, _) = runs[kind]
    compared = 0
    for key in a:
        x, y = a[key], b[key]
        rows = (
            x.shape[1] >= 200 and float(x.std()) > 1
        )  # rows of little noise may be alike by chance
        if rows:
            assert not {r.tobytes() for r in x} & {r.tobytes() for r in y}, key
            assert len({r.tobytes() for r in x}) == len(x), key
        if x.size >= 100_000:
            assert abs(np.corrcoef(x.ravel(), y.ravel())[0, 1]) < 5 / sqrt(x.size), key
            assert abs(np.corrcoef(x.ravel()[1:], y.ravel()[:-1])[0, 1]) < 5 / sqrt(x.size), key
            leak = np.where(
                np.arange(x.size) % 20 == 0, x.ravel(), y.ravel()
            )  # a twentieth shared would be seen
            assert abs(np.corrcoef(x.ravel(), leak)[0, 1]) > 5 / sqrt(x.size)
            compared += 1
    assert compared >= 1
