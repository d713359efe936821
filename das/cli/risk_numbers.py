"""Numbers on the command line of `das risk`: exact ones, probabilities, priors of a count."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NoReturn

import click

from das import risk as intruder
from das.errors import InputError
from das.model.exact import exact


class Number(click.ParamType):
    """An exact number: 1/2, 0.099, 1e-3."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        try:
            return exact(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


class Prior(Number):
    """A probability that is not 0: the risk is a ratio to it."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Fraction:
        prior = super().convert(value, param, ctx)
        if not 0 < prior <= 1:
            self.fail(
                f"{value} is no prior probability: it is above 0, and between 0 and 1", param, ctx
            )
        return prior


class UpperPrior(click.ParamType):
    """The prior of the upper count: uniform, uniform:10, point:25, or weights:3,2,1."""

    name = "prior"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> intruder.UpperPrior:
        if not isinstance(value, str):
            return value
        kind, _, rest = value.partition(":")
        try:
            if kind == "uniform":
                return intruder.Uniform(int(rest) if rest else None)
            if kind == "point":
                return intruder.Point(int(rest))
            return (
                intruder.WeightedPrior([float(exact(w)) for w in rest.split(",")])
                if kind == "weights"
                else _unknown()
            )
        except InputError as error:
            self.fail(str(error), param, ctx)
        except ValueError:
            self.fail(
                f"{value!r} is none of uniform, uniform:10, point:25, weights:3,2,1", param, ctx
            )


def _unknown() -> NoReturn:
    raise ValueError


NUMBER, PRIOR, UPPER_PRIOR = Number(), Prior(), UpperPrior()
