r"""A budget by target: the largest :math:`\rho` with which a plan of given shape meets a target
:math:`(\varepsilon, \delta)`.

The shape of a plan is its shares. Scaling every variance by :math:`f` divides every draw's cost,
and so :math:`\rho`, by :math:`f`. To choose a common factor on the noise is to choose :math:`\rho`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import floor, log10

from das.accounting.calibration import Calibration, calibrate
from das.accounting.draws import changed
from das.accounting.guarantee import exact_epsilon
from das.accounting.zcdp import tight
from das.errors import SpecError
from das.model.plan import Plan

#: Significant digits of a computed rho: a person can read them, and they lose less than one part
#: in 10^9.
DIGITS = 10


@dataclass(frozen=True)
class Target:
    """``epsilon`` at ``delta`` for the persons' plan. ``calibration`` is ``exact`` (exact
    composition) or ``zcdp-tight``, the tight conversion of zCDP: more noise, and a bound that needs
    only ``rho``."""

    epsilon: Fraction
    delta: Fraction
    calibration: Calibration

    def reached(self, plan: Plan) -> float:
        """An upper bound on the epsilon of ``plan`` at ``delta``, by the method of the target."""
        if self.calibration == "zcdp-tight":
            return tight(plan.cost, self.delta)
        return exact_epsilon(changed(plan), self.delta)[1]

    def rho(self, shape: Plan) -> Fraction:
        """The budget at which a plan with the shares of ``shape`` meets the target, rounded down to
        ``DIGITS`` digits, that is, towards more noise. A check confirms that the rounded budget
        meets the target."""
        found = shape.cost / calibrate(shape, self.epsilon, self.delta, self.calibration)
        for rho in (_rounded_down(found), found):
            if self.reached(shape.scaled(rho)) <= self.epsilon:
                return rho
        raise AssertionError(f"calibration gave rho = {found}, which does not meet {self}")

    def check(self, plan: Plan) -> None:
        """Raises :class:`SpecError` if ``plan`` does not meet the target."""
        if (reached := self.reached(plan)) > self.epsilon:
            raise SpecError(
                f"rho = {plan.cost} gives epsilon = {reached:.10g} at delta = {self.delta}, above"
                f" the target of {self.epsilon}",
                where="budget.rho",
                remedy=(
                    "delete rho, and das finds it from epsilon and delta; or delete epsilon and"
                    " calibration, and keep rho"
                ),
            )


def _rounded_down(value: Fraction) -> Fraction:
    unit = Fraction(10) ** (floor(log10(value)) + 1 - DIGITS)
    return floor(value / unit) * unit
