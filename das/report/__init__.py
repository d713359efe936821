"""The reports of a run, for people: self-contained pages.

What they show comes with the release or from :mod:`das.evaluate`. What is computed here is of the
page alone: which answers it has room for (``answers``), the errors of these for areas off the spine
(``across``) and the largest of them (``worst``)."""

from das.report.facts import Facts
from das.report.page import ByPlace, by_place, html

__all__ = ["ByPlace", "Facts", "by_place", "html"]
