"""The reports of a run, for people: self-contained pages. Formats results; computes none."""

from das.report.facts import Facts
from das.report.page import ByPlace, by_place, html

__all__ = ["ByPlace", "Facts", "by_place", "html"]
