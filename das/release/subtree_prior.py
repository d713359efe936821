"""The prior of a release that is cut: estimated from samples of all subtrees, and kept for their
estimation (:mod:`das.release.by_subtree`)."""

from __future__ import annotations

from dataclasses import asdict

from das.estimate import dispersion
from das.files import atomic, messages
from das.files.run import run_directory
from das.model.prior import Dispersion, HousingPrior, QuerySpreads
from das.model.universe import Universe
from das.release.opened import OpenedRelease, open_part
from das.release.work_files import WorkFiles


def find_prior(work: WorkFiles, opened: OpenedRelease) -> HousingPrior:
    """From what all subtrees have seen."""
    u, lowest = opened.after.persons, open_part(work.release, 1)
    seen = [
        dispersion.DispersionSample.of_arrays(messages.read(work.seen(i)))
        for i in range(1, len(opened.cut) + 1)
    ]
    prior = dispersion.prior_of(u, lowest.source(u).queries(lowest.spine.levels[-1]), seen)
    atomic.write_json(work.prior(), {"spreads": [asdict(s) for s in prior.spreads]})
    return prior


def stored_prior(work: WorkFiles, opened: OpenedRelease, u: Universe) -> HousingPrior | None:
    """What :func:`find_prior` has written, for the universe that has a prior."""
    if opened.after.prior == "none" or u != opened.after.persons:
        return None
    return HousingPrior(
        tuple(
            QuerySpreads(
                s["query"],
                Dispersion(**s["common"]),
                {int(a): Dispersion(**d) for a, d in s["own"].items()},
                s["seen"],
            )
            for s in run_directory.read_json(work.prior())["spreads"]
        )
    )
