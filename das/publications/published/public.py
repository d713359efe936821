"""Counts over a tree, measured by another publisher: what can be done with them, without the truth
(:class:`das.release.publications.PublicHalf`)."""

from __future__ import annotations

from das.publications.counts.public import PublicCounts
from das.publications.published.files.outside import NOTHING, Outside
from das.release.publications import Recomputation, Rerun


class PublicPublished(PublicCounts):
    """``outside``: what is known of places besides measurements in the Bureau's layout."""

    def __init__(self, outside: Outside = NOTHING) -> None:
        self.outside = outside

    def again(self, rerun: Rerun) -> Recomputation:
        """Estimate from measurements in the Bureau's layout, or again from a release that was made
        of them."""
        from das.publications.published.files import layout  # no run needs it

        into = rerun.into.release
        if not layout.is_published(rerun.release):
            return super().again(rerun)
        with rerun.stages("convert"):
            layout.convert(rerun.release, into, progress=rerun.progress, outside=self.outside)
        return self.estimated(rerun, into)
