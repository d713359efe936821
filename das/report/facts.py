"""What a run says of itself, in the form of the report page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from das.model.solution import Certificate
from das.report.page import Epsilon, Facts, Stage


def facts(
    name: str,
    schema: str,
    privacy: Mapping[str, Any],
    stages: Sequence[Mapping[str, Any]],
    certificates: Mapping[str, Certificate],
) -> Facts:
    """From the privacy statement, the stages and the certificates by level."""
    out: Facts = {
        "name": name,
        "schema": schema,
        "private": privacy["private"],
        "neighbours": privacy["neighbours"],
        "mechanism": privacy["mechanism"],
        "invariants": [
            c["says"] or f"{c['constraint']} of {c['universe']}, {c['level']}" for c in privacy["outside_the_guarantee"]
        ],
        "stages": [Stage(name=s["name"], seconds=s["seconds"], peak_mb=s["peak_mb"]) for s in stages],
        "certificates": certificates,
    }
    guarantee = list(privacy["guarantee"].values())[-1]  # of all universes together
    if "rho" in privacy:
        total = Fraction(privacy["rho"]["total"])
        out["rho"] = f"{total} (about {float(total):.4f})"
        out["epsilon"] = [
            Epsilon(method=m, delta=row["delta"], epsilon=row[m])
            for row in guarantee["epsilon"]
            for m in ("zcdp-tight", "zcdp-bun-steinke")
        ]
    else:
        out["pure_epsilon"] = guarantee["epsilon"]
    return out
