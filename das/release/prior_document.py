"""What a release assumes besides its measurements, in its file ``prior.json`` and on its page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from das.estimate import dispersion
from das.files import atomic, messages
from das.files.run import run_directory
from das.model.plan import OuterPass
from das.model.post_processing import Dispersion, HousingPrior, QuerySpreads, SharesPrior
from das.model.schema import Schema
from das.model.spine import Spine
from das.model.universe import Universe
from das.release.opened import OpenedRelease, open_part
from das.release.work_files import WorkFiles

NAME = "prior.json"  #: in a release that assumes something: see :mod:`das.model.post_processing`
SAYS = (
    "the lowest units were assumed to share their parent's households in proportion to its housing"
    " units; a group of m expected persons was assumed to have the variance linear m +"
    " quadratic m^2, estimated from the noisy measurements"
)


SHARES_SAYS = (
    "the persons of the lowest units were assumed to have roughly the shares of the unit above, within"
    " each count that was fixed before. A cell of m expected persons has the share p of its count, and was"
    " assumed to have the variance spread * m (1 - p). The spread was estimated from the noisy"
    " measurements one level above"
)


@dataclass(frozen=True)
class ListedSpread:
    """How one query spreads, with words for it: ``answer`` is the answer that has numbers of its
    own, empty for the others.
    """

    query: str
    title: str
    answer: str
    linear: float
    quadratic: float


def listed(prior: HousingPrior, schema: Schema) -> list[ListedSpread]:
    """A line for each query, and for each answer that has numbers of its own."""
    out = []
    for s in prior.spreads:
        query = schema.query(s.query)
        captions = query.captions() if s.own else []
        rows: list[tuple[str, Dispersion]] = [
            ("", s.common),
            *((captions[a], own) for a, own in sorted(s.own.items())),
        ]
        out += [
            ListedSpread(s.query, query.title, answer, d.linear, d.quadratic) for answer, d in rows
        ]
    return out


def document(prior: HousingPrior, schema: Schema) -> Mapping[str, Any]:
    """The file."""
    return {
        "says": SAYS,
        "seen": {s.query: s.seen for s in prior.spreads},
        "spreads": [vars(s) for s in listed(prior, schema)],
    }


def shares_document(
    prior: SharesPrior, spine: Spine, outer: Sequence[OuterPass]
) -> Mapping[str, Any]:
    """The file of a prior of shares: the spread of each unit that has its own, by pass. With each,
    the standard error of its estimate and the number of noisy answers behind it."""
    codes = spine.geocodes(prior.level).tolist()
    return {
        "says": SHARES_SAYS,
        "level": prior.level,
        "spreads": [
            {
                "geocode": code,
                "splits": outer_pass.frozen,
                "spread": float(prior.spread[number, unit]),
                "standard_error": float(prior.error[number, unit]),
                "seen": int(prior.seen[number, unit]),
            }
            for unit, code in enumerate(codes)
            for number, outer_pass in enumerate(outer)
        ],
    }


# The prior of a release that is cut: estimated from samples of all subtrees, and kept for their
# estimation (:mod:`das.release.by_subtree`).


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
