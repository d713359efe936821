"""Do the noisy measurement files of a release hold what its privacy statement says was drawn?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from das.errors import ReleaseError
from das.files import nmf, run_directory
from das.files import spine as spine_file
from das.files.ledger import LedgerFile
from das.model.budget import Mechanism, Neighbours
from das.noise import discrete_gaussian, discrete_laplace


def check(release: Path) -> list[dict[str, Any]]:
    """Compare the files with the ledger of ``privacy.json``, draw by draw: levels, queries, units, answers,
    variances. Returns the ledger's lines. Raises :class:`ReleaseError` at the first difference."""
    statement = run_directory.read_json(release / "privacy.json")
    spine = spine_file.read(release / "spine.parquet")
    mechanism = Mechanism(statement["mechanism"])
    lines: Sequence[Mapping[str, Any]] = statement["ledger"]
    readers = {u: nmf.NmfReader(run_directory.nmf_folder(release, u), spine) for u in {d["universe"] for d in lines}}
    for universe, reader in readers.items():
        for level in spine.levels:
            said = {d["query"] for d in lines if (d["universe"], d["level"]) == (universe, level)}
            if odd := said ^ set(reader.queries(level)):
                raise ReleaseError(f"{sorted(odd)[0]!r} is in the files or in the ledger, not in both",
                                   where=f"{reader.root}, {level}", remedy="the release is altered")  # fmt: skip
    for line in lines:
        _check_line(line, readers[line["universe"]], mechanism)
    _check_sums(statement, mechanism, release / "privacy.json")
    _check_book(statement, release)
    return [dict(d) for d in lines]


def _check_sums(statement: Mapping[str, Any], mechanism: Mechanism, where: Path) -> None:
    """Every scale costs what its line says, and the lines add up to the totals: exactly, in fractions."""
    sensitivity = Neighbours(statement["neighbours"]).sensitivity
    gaussian = mechanism is Mechanism.DISCRETE_GAUSSIAN
    every = [*statement["ledger"], *statement["spent_by_interrupted_attempts"]]
    for d in every:
        scale, cost = Fraction(d["sigma_sq" if gaussian else "scale"]), Fraction(d[mechanism.currency])
        if cost * scale * (2 if gaussian else 1) != sensitivity:
            raise ReleaseError(f"{d['query']!r} at {d['level']!r}: its noise does not cost {cost}", where=where,
                               remedy="the statement is altered")  # fmt: skip
    said = {u: Fraction(c) for u, c in statement[mechanism.currency].items()}
    sums = {
        u: sum((Fraction(d[mechanism.currency]) for d in every if u in (d["universe"], "total")), Fraction(0))
        for u in said
    }
    if odd := [u for u in said if said[u] != sums[u]]:
        raise ReleaseError(f"the total of {odd[0]!r} is given as {said[odd[0]]}, the lines add up to {sums[odd[0]]}",
                           where=where, remedy="the statement is altered")  # fmt: skip


def _check_book(statement: Mapping[str, Any], release: Path) -> None:
    """The statement has the draws of ``ledger.jsonl``, no more and no fewer."""
    attempts = LedgerFile(release / "ledger.jsonl").attempts()
    if not attempts:
        return  # a release that was converted from another layout has no ledger of its own
    drawn = Counter((e.universe, e.level, e.query, str(e.cost)) for a in attempts for e in a.events)
    currency = Mechanism(statement["mechanism"]).currency
    every = [*statement["ledger"], *statement["spent_by_interrupted_attempts"]]
    if drawn != Counter((d["universe"], d["level"], d["query"], d[currency]) for d in every):
        raise ReleaseError("the draws are not those of ledger.jsonl", where=release / "privacy.json",
                           remedy="the statement or the ledger is altered")  # fmt: skip


def _check_line(line: Mapping[str, Any], reader: nmf.NmfReader, mechanism: Mechanism) -> None:
    level, query = line["level"], line["query"]
    where = f"{reader.root}, {level}, {query}"
    expected = _variance(mechanism, line)
    units = reader.spine.units(level)
    if units != line["units"]:
        raise ReleaseError(
            f"{units} units, the ledger says {line['units']}", where=where, remedy="the release is altered"
        )
    for start, stop in reader.spine.batches(level, line["answers"]):
        m = reader.read(level, query, start, stop)
        if m.values.shape[1] != line["answers"]:
            raise ReleaseError(f"{m.values.shape[1]} answers, the ledger says {line['answers']}", where=where,
                               remedy="the release is altered")  # fmt: skip
        if not np.allclose(m.variance, max(expected, float(np.finfo(np.float32).tiny)), rtol=1e-5):
            raise ReleaseError(f"variance {m.variance[0]:.6g}, the ledger's scale gives {expected:.6g}", where=where,
                               remedy="the release is altered")  # fmt: skip


def _variance(mechanism: Mechanism, line: Mapping[str, Any]) -> float:
    if mechanism is Mechanism.DISCRETE_GAUSSIAN:
        return discrete_gaussian.variance(Fraction(line["sigma_sq"]))
    return discrete_laplace.variance(Fraction(line["scale"]))
