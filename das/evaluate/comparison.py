"""Two sources of errors side by side, and runs repeated."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import sqrt
from statistics import mean, stdev

from das.evaluate.bias import half_width
from das.model.closed import Closed
from das.model.error_rows import Comparison, ErrorRow, PairedRow, SummaryRow, SweepRow


def compared(rows: Iterable[ErrorRow]) -> list[Comparison]:
    """Noisy measurements and published counts side by side, for each level, query and class of the
    true count. Where not all measurements were drawn, the expected effect of their noise replaces
    them.
    """
    found = {(r.level, r.query, r.bin, r.source): r for r in rows}
    out = []
    for (level, query, bin_, source), post in found.items():
        if source != "postprocessed":
            continue
        n = found.get((level, query, bin_, "nmf"))
        theory = n.expected_mae if n else post.expected_mae
        against = n.mae if n else theory
        out.append(
            Comparison(
                level,
                query,
                bin_,
                post.n,
                n.mae if n else None,
                theory,
                post.mae,
                post.mae / against if against else None,
                n.rmse if n else None,
                post.rmse,
                n.bias if n else None,
                post.bias,
                post.bias_low,
                post.bias_high,
            )
        )
    return out


def summary(rows: Sequence[SweepRow]) -> list[SummaryRow]:
    """Means over the repeats of a sweep, with intervals over them: what a rerun would show, and no
    model of errors.
    """
    groups: dict[tuple[object, ...], list[SweepRow]] = {}
    noisy: dict[tuple[object, ...], float] = {}
    for r in rows:
        e = r.error
        groups.setdefault((r.budget, r.method, e.level, e.query, e.source, e.bin), []).append(r)
        if e.source == "nmf":
            noisy[r.budget, r.method, r.repeat, e.level, e.query, e.bin] = e.mae
    return [_summary(group, noisy) for group in groups.values()]


def paired(rows: Sequence[SweepRow]) -> list[PairedRow]:
    """Every method except the first, compared with the first on the same noise.

    These are differences within the same repeat. So their spread contains none of the variation
    that both methods share."""
    first = rows[0].method
    published = [r for r in rows if r.error.source == "postprocessed"]
    against = {
        (r.budget, r.repeat, r.error.level, r.error.query, r.error.bin): r.error.mae
        for r in published
        if r.method == first
    }
    pairs: dict[tuple[Fraction, str, str, str, str], list[tuple[float, float]]] = {}
    for r in published:
        e = r.error
        other = against.get((r.budget, r.repeat, e.level, e.query, e.bin))
        if r.method != first and other is not None:
            pairs.setdefault((r.budget, e.level, e.query, e.bin, r.method), []).append(
                (e.mae, other)
            )
    out = []
    for key, both in pairs.items():
        one, other = (mean(values) for values in zip(*both, strict=True))
        spread = _spread([x - y for x, y in both])
        out.append(PairedRow(*key, first, len(both), one, other, *spread))
    return out


def _summary(group: Sequence[SweepRow], noisy: dict[tuple[object, ...], float]) -> SummaryRow:
    first, errors = group[0], [r.error for r in group]
    e = errors[0]
    mae, bias = _spread([x.mae for x in errors]), _spread([x.bias for x in errors])
    differences = []
    if e.source == "postprocessed":
        keys = [(r.budget, r.method, r.repeat, e.level, e.query, e.bin) for r in group]
        differences = [
            r.error.mae - noisy[k] for r, k in zip(group, keys, strict=True) if k in noisy
        ]
    difference = _spread(differences) if differences else (None, None, None)
    return SummaryRow(
        first.budget,
        first.method,
        e.level,
        e.query,
        e.source,
        e.bin,
        len(group),
        e.n,
        *mae,
        e.expected_mae,
        sqrt(mean(x.rmse**2 for x in errors)),
        *bias,
        *difference,
    )


def _spread(values: Sequence[float]) -> tuple[float, float | None, float | None]:
    """The mean of independent runs, and its interval at 95 % where there are several."""
    centre = mean(values)
    if len(values) < 2:
        return centre, None, None
    reach = half_width(stdev(values) / sqrt(len(values)), len(values))
    return centre, centre - reach, centre + reach


@dataclass(frozen=True, repr=False)
class Headline(Closed):
    """Mean absolute error of the total at one level; ``nmf`` is ``None`` where it was not
    measured.
    """

    level: str
    units: int
    nmf: float | None
    postprocessed: float


def headline(rows: Sequence[ErrorRow]) -> tuple[Headline, ...]:
    """The errors that a run prints at its end: that of the total at each level, in the order of
    the rows.
    """
    totals = {(r.level, r.source): r for r in rows if r.query == "total" and r.bin == "all"}
    out = []
    for (level, source), row in totals.items():
        if source == "postprocessed":
            nmf = totals.get((level, "nmf"))
            out.append(Headline(level, row.n, nmf.mae if nmf else None, row.mae))
    return tuple(out)
