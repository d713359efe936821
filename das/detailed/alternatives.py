r"""Other ways to spend the same budget: the share of the first stage, and how many codes of race
are read.

*The first stage.* It decides the size of a table. Its answer :math:`y_1`, with variance
:math:`v_1`, is one more count of the group, besides the k cells with variance :math:`v_2` each.
Without it, a total has the variance :math:`k v_2`. With it, by least squares

.. math:: \operatorname{var}(\text{total}) = \frac{v_1\, k v_2}{v_1 + k v_2}, \qquad
          \operatorname{var}(\text{cell}) = v_2 \Bigl(1 - \frac{v_2}{v_1 + k v_2}\Bigr).

These hold for a group far from any threshold. Near a threshold, only those :math:`y_1` that led to
this table are seen.

*Codes of race.* With r codes read, a person is in :math:`h_r \max(2, r) + h_e` groups, and fewer
codes mean less noise. The loss is that further codes are not counted, and the noise does not tell
how many people report more.

Source: Haney et al. (2024), *SafeTab-P*, section 6.3.1, which sets the share to 0.1 and the codes
to 8; the estimate from both stages is ours."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from math import sqrt

from das.detailed.planning import COVERAGE, cells_of
from das.errors import SpecError
from das.model.adaptive import FIRST, LevelPlan, Parameters
from das.model.population import RACE_CODES, GroupLevel


@dataclass(frozen=True)
class StageErrors:
    """Standard deviations of a table of ``cells`` where the first stage has the share ``first``: of
    its own answer, and of totals and cells with the first stage thrown away and kept."""

    first: Fraction
    cells: int
    sorting: float
    total: float
    total_kept: float
    cell: float
    cell_kept: float


def stage_errors(plan: LevelPlan, shares: Iterable[Fraction]) -> tuple[StageErrors, ...]:
    """For each share and each size of table. Raises :class:`SpecError` for a plan that has no first
    stage, or a share that is not between 0 and 1."""
    if not plan.first:
        raise SpecError("there is no first stage to share with", where=plan.at.name)
    return tuple(
        _errors(plan, share, cells) for share in shares for cells in plan.table.answers[1:]
    )


def _errors(plan: LevelPlan, share: Fraction, cells: int) -> StageErrors:
    if not 0 < share < 1:
        raise SpecError(f"a share of {share} is not between 0 and 1", where=FIRST)
    other = replace(plan, first=share)
    v1, v2 = other.measurement(FIRST).variance, cells_of(other).variance
    whole = v1 + cells * v2
    kept = v1 * cells * v2 / whole, v2 * (1 - v2 / whole)
    return StageErrors(
        share, cells, sqrt(v1), sqrt(cells * v2), sqrt(kept[0]), sqrt(v2), sqrt(kept[1])
    )


@dataclass(frozen=True)
class FewerCodes:
    """A level at the same budget if ``race_codes`` codes are read: its ``stability``, the standard
    deviation of a cell as a multiple of the planned one (``width``), and its ``margin`` of
    error."""

    at: GroupLevel
    table: str
    race_codes: int
    stability: int
    width: float
    margin: int


def fewer_codes(
    parameters: Parameters,
    run: str,
    codes: Sequence[int] = range(1, RACE_CODES + 1),
    coverage: float = COVERAGE,
) -> tuple[FewerCodes, ...]:
    """For each level and number of codes."""
    return tuple(
        FewerCodes(
            plan.at,
            plan.table.name,
            r,
            other.stability,
            sqrt(new.variance / cells_of(plan).variance),
            new.margin(coverage),
        )
        for r in codes
        for plan, other in zip(
            parameters.plans(run), replace(parameters, race_codes=r).plans(run), strict=True
        )
        for new in (cells_of(other),)
    )
