r"""What a mechanism is: integer noise on each answer, and what an answer costs.

Each mechanism has three entries: its object in ``das.model.mechanisms.MECHANISMS``, with the exact
algebra of what it costs and the facts of its distribution; its sampler in
``das.noise.samplers.SAMPLERS``, which draws it; and its forms in ``das.accounting.document.FORMS``,
for its ledger lines in a privacy statement have names of their own. With these a configuration may
name it. All other code is generic in the mechanism, with these exceptions. Exact composition
(``das.accounting.draws``) and its figures are for discrete Gaussian noise, and so are the Census
Bureau's published measurements. A bare number, ``rho`` or ``epsilon`` (``Plan.of_rho``,
``Plan.of_epsilon``, ``das.risk``), means the discrete Gaussian or the two-sided geometric.
``tests/test_architecture.py`` lists them.

The *parameter* of a noise is the exact number that says how wide it is: :math:`\sigma^2` or the
Laplace scale b. A mechanism is paid for in one *currency*, ``rho`` (zero-concentrated differential
privacy) or ``epsilon`` (pure); costs in one currency add up, costs in two do not."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar

#: The unit of budgets.
RHO, EPSILON = "rho", "epsilon"


@dataclass(frozen=True, repr=False)
class Mechanism(ABC):
    """A mechanism for one kind of noise. Two with the same name are equal; ``str`` is the name, as
    in a configuration.

    ``says`` is the name in words; ``symbol`` is what files call the parameter, ``title`` what
    people do. The noise of an answer that costs :math:`r` has :math:`P[X = x] \\propto e^{-r
    |x|^k}``, k the ``power`. ``wide`` is the largest 95 % margin of error of a sum of such
    noise, in standard errors."""

    name: ClassVar[str]
    says: ClassVar[str]
    currency: ClassVar[str]
    symbol: ClassVar[str]
    title: ClassVar[str]
    power: ClassVar[int]
    wide: ClassVar[float]

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"<{self.name}>"

    @property
    def pure(self) -> bool:
        """Whether it is differentially private with a delta of 0."""
        return self.currency == EPSILON

    @abstractmethod
    def parameter(self, cost: Fraction, answers: int) -> Fraction:
        """The parameter that ``cost`` buys if ``answers`` answers differ by 1 between two data
        sets.
        """

    @abstractmethod
    def cost(self, parameter: Fraction, answers: int) -> Fraction:
        """The cost if ``answers`` answers with this noise differ by 1 between two data sets: the
        inverse of :meth:`parameter`."""

    @abstractmethod
    def variance(self, parameter: Fraction) -> float:
        """The variance of one answer's noise, as published with it. Nothing private depends on
        it.
        """

    @abstractmethod
    def continuous_variance(self, parameter: Fraction) -> Fraction:
        """The variance of the continuous noise of this parameter, exactly: to choose by, not to
        publish.
        """

    @abstractmethod
    def with_variance(self, variance: float) -> Fraction:
        """A parameter whose noise has this variance, nearly."""

    @abstractmethod
    def mean_abs(self, variance: float) -> float:
        """The mean of the absolute value of noise of this variance."""

    @abstractmethod
    def margin(self, parameter: Fraction, coverage: float = 0.95) -> int:
        r"""The smallest m with :math:`P[|X| \le m] \ge` ``coverage``."""
