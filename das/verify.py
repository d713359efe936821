"""Do the noisy measurement files of a release hold what its privacy statement says was drawn?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from das.errors import ReleaseError
from das.files import nmf, run_directory
from das.files import spine as spine_file
from das.model.budget import Mechanism
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
    return [dict(d) for d in lines]


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
