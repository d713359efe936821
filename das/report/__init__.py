"""The reports of a run, for people: self-contained pages.

Pages show content of the release or of :mod:`das.evaluate`. Only what a page itself needs is
computed here. That is which answers have room (``answers``), and of the confidential page errors for
areas off the spine and the largest errors (``page``)."""

from das.report.facts import Facts
from das.report.page import ByPlace, by_place, html

__all__ = ["ByPlace", "Facts", "by_place", "html"]
