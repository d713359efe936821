"""What every output of a seeded run says, decided here and nowhere else.

Whoever knows the seed can draw the noise again and subtract it, so that no guarantee holds for anything that was
computed from it. Outputs carry that in one of three forms, whatever else they are:

* text and pages begin with a sentence (:data:`WARNING`, or :data:`PLANNED` where nothing was drawn yet);
* an object (JSON, the privacy statement) has ``"private": false`` and the sentence as ``"warning"`` (:func:`marked`);
* rows (CSV, lists in JSON) have a last column :data:`COLUMN`, which says :data:`CELL` in each (:func:`marked_rows`): a
  comment line is no CSV, and a row that is cut out, sorted or joined keeps its column.

A private output has neither, and no output but a private one is called fit to be published.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

COLUMN = "NOT PRIVATE"
CELL = "seeded"
#: Of figures that a seed makes void: what they would be.
WITHOUT = "what it would be without the seed"
WARNING = (
    f"{COLUMN}: this run was seeded. Whoever knows the seed can draw its noise again and subtract it: no guarantee "
    "holds for any output of it. Publish nothing of it."
)
PLANNED = (
    f"{COLUMN}: this configuration has a seed, and a run of it protects nobody. Every epsilon here is {WITHOUT}: delete "
    "run.seed."
)


def marked(value: Mapping[str, Any], private: bool, warning: str = WARNING) -> dict[str, Any]:
    """An object that says whether it is private.

    >>> marked({"a": 1}, True)
    {'private': True, 'a': 1}
    """
    return {"private": private} | ({} if private else {"warning": warning}) | dict(value)


def marked_rows(rows: Iterable[Mapping[str, Any]], private: bool) -> list[dict[str, Any]]:
    """Rows that say so if they are not.

    >>> marked_rows([{"a": 1}], False)
    [{'a': 1, 'NOT PRIVATE': 'seeded'}]
    """
    mark = {} if private else {COLUMN: CELL}
    return [dict(r) | mark for r in rows]
