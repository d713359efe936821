"""The reports of a run, for people: self-contained pages. They show content of the release or of
:mod:`das.evaluate`, and compute only what a page itself needs."""
