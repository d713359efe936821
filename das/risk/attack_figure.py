"""Attacks on runs as a figure: numbers and words, before anything is drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from das.model.figure import Curve, Curves, FigureData
from das.risk.score import PARTS, Report


def attack_figure(reports: Sequence[Report]) -> FigureData:
    """Agreement against the budget, and precision against confidence."""
    reports = sorted(reports, key=lambda r: r.cost)
    cost = [r.cost for r in reports]
    kinds: Sequence[tuple[str, Callable[[Report], float], bool]] = (
        ("attack", lambda r: r.attack.agreement, False),
        ("tables at face value", lambda r: r.face_value.agreement, False),
        ("baseline, without the block's traits", lambda r: r.baseline.agreement, False),
        ("what the guarantee allows from that baseline", lambda r: r.allowed, True),
    )
    agreement = [
        Curve(name, cost, [of(r) for r in reports], dashed=dashed, points=True)
        for name, of, dashed in kinds
    ]
    found = {
        "attack": [r.attack.uniques_found for r in reports],
        "baseline": [r.baseline.uniques_found for r in reports],
    }
    uniques = [Curve(f"unique persons: {name}", cost, y, points=True) for name, y in found.items()]
    part = [100 * p for p in PARTS]
    shown = [reports[0], *reports[1:-1][-4:], reports[-1]] if len(reports) > 6 else reports
    sure = [
        Curve(f"{r.currency} = {r.cost:.4g}", part, list(r.attack.precision), points=True)
        for r in shown
    ]
    currency = reports[0].currency
    return FigureData(
        "attack",
        [
            Curves("Records recovered", currency, "fraction of persons", agreement, log_x=True),
            Curves("Unique in their block", currency, "fraction recovered", uniques, log_x=True),
            Curves(
                "The surest guesses", "surest % of the guesses", "fraction right", sure, log_x=True
            ),
        ],
    )
