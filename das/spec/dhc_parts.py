"""Tables of the configuration of the DHC that need no other: how it is estimated."""

from __future__ import annotations

from typing import Literal

from das.model.post_processing import Method
from das.spec.parts import Part

SharesName = Literal["none", "shares"]
_FEW = 100


class DhcEstimation(Part):
    """``[estimation]``."""

    method: Method = "topdown"
    """`"topdown"`: each level from its own measurements, given the level above.
    `"full-information"`: queries with at most 100 answers from the measurements of all levels.
    """

    cells: Literal["last", "first"] = "last"
    """When measurements of single cells of persons count. `"last"`: in the last pass, as in
    production. `"first"`: from the first pass that settles a cell, such as a single year of age
    under 22.
    """
    prior: SharesName = "none"
    """A prior for the persons of the lowest units: none, or that they have roughly the shares of
    the unit above (`"shares"`; see *Ages*). Its weight is estimated from published levels.
    """

    @property
    def most(self) -> int:
        """The most answers that a query can have for the upward pass to use it at all levels
        (:mod:`das.estimate.upward`).
        """
        return _FEW if self.method == "full-information" else 0
