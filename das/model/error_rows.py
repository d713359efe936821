"""Rows of the evaluation and of a sweep: one frozen value for a line of each of their files of
errors."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from das.model.frozen import NoRepr

#: Classes of the true count: their names, and the first count of each.
CLASSES = ("0", "1-9", "10-99", "100-999", "1000-9999", "10000+")
FIRST = (0, 1, 10, 100, 1000, 10000)
#: Where numbers come from: noisy measurements, published counts, unbiased full-information
#: estimates.


@dataclass(frozen=True, repr=False)
class ErrorRow(NoRepr):
    """Errors of one query at one level over one class of true counts: a line of ``errors.csv``.

    ``source`` is ``nmf``, ``postprocessed`` or ``estimates``; ``bin`` is ``all`` or a class of the
    true count; ``n`` the number of (unit, answer) pairs; ``bias`` the mean of published minus true;
    ``p50``, ``p95``, ``max`` are of the absolute error; ``tvd`` is 1 - L1/(2N) for ``bin = all``
    (JASON JSR-19-2F, section 6.1).

    ``mape``, ``malpe``, ``cv`` are in percent, as the Bureau defines them. ``bias_se`` is the
    standard error of ``bias`` over ``clusters`` clusters, ``bias_low`` and ``bias_high`` its
    interval at 95 %. ``expected_mae`` and ``expected_rmse`` are those of the noise alone, and
    ``mae_z`` how many of its standard deviations ``mae`` is away. ``coverage`` is that of the 90 %
    intervals of the estimates. ``None``: not defined for this row."""

    level: str
    query: str
    source: str
    bin: str
    n: int
    mae: float
    rmse: float
    bias: float
    p50: float
    p95: float
    max: float
    tvd: float | None
    p90: float | None = None
    p99: float | None = None
    mape: float | None = None
    malpe: float | None = None
    cv: float | None = None
    bias_se: float | None = None
    bias_low: float | None = None
    bias_high: float | None = None
    clusters: int | None = None
    zero_to_positive: int | None = None
    positive_to_zero: int | None = None
    expected_mae: float | None = None
    expected_rmse: float | None = None
    mae_z: float | None = None
    coverage: float | None = None


#: Classes of the true total of a lowest unit: their names, and the first total of each.
SIZES = ("0", "1-9", "10-49", "50-99", "100-199", "200-499", "500+")
FIRST_SIZES = (0, 1, 10, 50, 100, 200, 500)


@dataclass(frozen=True, repr=False)
class SizeRow(NoRepr):
    """Errors of published totals over the ``n`` units of the lowest level whose true total is in a
    class of ``size``: a line of ``sizes.csv``. ``bias_low`` and ``bias_high`` are the interval of
    the ``bias`` at 95 % over these units, which are taken as independent; ``predicted`` is the bias
    that least squares is expected to have without a correction, where that is known. ``intervals``
    corrected totals have an interval, of a mean ``width``, and ``coverage`` is the share of these
    that hold the truth."""

    level: str
    size: str
    n: int
    mae: float
    bias: float
    bias_low: float
    bias_high: float
    predicted: float | None
    intervals: int = 0
    coverage: float | None = None
    width: float | None = None


@dataclass(frozen=True, repr=False)
class CoverageRow(NoRepr):
    """How often the intervals of a table at one level hold the truth: a line of ``intervals.csv``.
    ``by`` says whether ``size`` is a class of the ``published`` count or of the ``true`` one; of
    ``n`` counts the ``coverage``, and the mean ``width`` of the interval."""

    level: str
    table: str
    by: str
    size: str
    n: int
    coverage: float
    width: float


@dataclass(frozen=True, repr=False)
class TableRow(NoRepr):
    """Errors of one column of a published table over the geographies of one kind: a line of
    ``tables.csv``.

    The columns and size classes are those of the Bureau's Detailed Summary Metrics; ``me`` is the
    mean error, ``shares`` the total absolute error of shares, for ``size`` all."""

    geography: str
    table: str
    column: str
    label: str
    size: str
    n: int
    mae: float
    rmse: float
    mape: float
    cv: float | None
    malpe: float
    me: float
    from_2_to_5_percent: int
    over_5_percent: int
    over_200: int
    shares: float | None


@dataclass(frozen=True, repr=False)
class ImpossibleRow(NoRepr):
    """How many units of the lowest level meet a condition that they should not: a line of
    ``impossible.csv``.

    ``of_true`` units are in the universe of the condition in the truth, ``of_published`` as
    published."""

    condition: str
    level: str
    of_true: int
    true: int
    of_published: int
    published: int


@dataclass(frozen=True, repr=False)
class FigureRow(NoRepr):
    """Errors of one line of a figure of the DHC over the ``n`` units of a level: a line of
    ``figures.csv``.

    ``mae``, ``rmse``, ``mape`` (in percent) are the Bureau's measures. ``bias`` is the mean of
    published minus true. The ``official`` columns have the Bureau's own errors over ``official_n``
    units, where it has published them."""

    level: str
    figure: str
    label: str
    n: int
    mae: float
    rmse: float
    bias: float
    mape: float
    official_n: int | None = None
    official_mae: float | None = None
    official_rmse: float | None = None


@dataclass(frozen=True, repr=False)
class Comparison(NoRepr):
    """Noisy measurements compared with published counts, for one query, level and class of the true
    count.

    ``ratio`` is the MAE of the published counts over that of the noisy measurements. Biases have
    95 % intervals. ``None`` if there is nothing to compare with."""

    level: str
    query: str
    bin: str
    n: int
    mae_noisy: float | None
    mae_theory: float | None
    mae_published: float
    ratio: float | None
    rmse_noisy: float | None
    rmse_published: float
    bias_noisy: float | None
    bias_published: float
    bias_low: float | None
    bias_high: float | None


@dataclass(frozen=True, repr=False)
class TwoErrorsRow(NoRepr):
    """Errors of two estimates, a and b, of one query at one level, over ``n`` (unit, answer) pairs.

    ``difference`` is the MAE of b less that of a, with its interval at 95 % over clusters of
    siblings."""

    level: str
    query: str
    n: int
    mae_a: float
    mae_b: float
    difference: float
    difference_low: float | None
    difference_high: float | None
    rmse_a: float
    rmse_b: float
    bias_a: float
    bias_b: float


@dataclass(frozen=True)
class DifferenceRow:
    """How the published counts b differ from a, of one query at one level: ``differ`` of ``n``
    answers do; mean and root mean square of |b - a|, the largest, and the mean of b - a. Nothing in
    it depends on the truth."""

    level: str
    query: str
    n: int
    differ: int
    mean_absolute: float
    root_mean_square: float
    largest: float
    mean: float


@dataclass(frozen=True, repr=False)
class SweepRow(NoRepr):
    """One line of a sweep: budget (rho or epsilon), method and number of the run, and a row of its
    errors."""

    budget: Fraction
    method: str
    repeat: int
    error: ErrorRow


@dataclass(frozen=True, repr=False)
class SummaryRow(NoRepr):
    """One line of the summary of a sweep: means over its repeats, with intervals at 95 % where
    there are several.

    ``difference`` is the MAE of the published counts less that of the noisy measurements of the
    same run."""

    budget: Fraction
    method: str
    level: str
    query: str
    source: str
    bin: str
    repeats: int
    n: int
    mae: float
    mae_low: float | None
    mae_high: float | None
    expected_mae: float | None
    rmse: float
    bias: float
    bias_low: float | None
    bias_high: float | None
    difference: float | None
    difference_low: float | None
    difference_high: float | None


@dataclass(frozen=True, repr=False)
class PairedRow(NoRepr):
    """One line of ``paired.csv``: published counts of two methods from the same noise, over the
    repeats of a sweep.

    ``mae`` is of ``method``, ``mae_against`` of ``against``; ``difference`` is the first less the
    second, with its interval at 95 % where there are several repeats."""

    budget: Fraction
    level: str
    query: str
    bin: str
    method: str
    against: str
    repeats: int
    mae: float
    mae_against: float
    difference: float
    difference_low: float | None
    difference_high: float | None
