"""The report of a run, for people: one self-contained page. Formats results; computes none."""

from das.report.page import Facts, html

__all__ = ["Facts", "html"]
