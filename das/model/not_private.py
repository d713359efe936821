"""What every output of a seeded run says, decided only here.

Anyone who knows the seed can draw the noise again and subtract it. So no guarantee holds for
anything computed from it. Every output says so in one of four forms:

* Text and pages begin with a sentence: :data:`WARNING`, or :data:`PLANNED` before anything is
  drawn.
* An object (JSON, the privacy statement) has ``"private": false`` and the sentence as ``"warning"``
  (:func:`marked`).
* Rows (CSV, lists in JSON) have a last column :data:`COLUMN`, with :data:`CELL` in each row
  (:func:`marked_rows`). A comment line is not CSV, and a row that is cut out, sorted or joined
  keeps its column.
* Parquet files say it in their metadata, under :data:`COLUMN`, or have that column.

:func:`das.files.messages.check_marked` looks for it in every file before a release is sealed, and
before a run ends.

A private output has none of these, and only a private output is called fit to publish."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias

#: For noise if nobody says who drew it, and how: measurement files by themselves, and those of
#: another publisher.
UNKNOWN: Final = "unknown"
#: Whether an output is private. What is unknown is not called private, and carries no warning that
#: it was seeded.
Private: TypeAlias = bool | Literal["unknown"]

COLUMN = "NOT PRIVATE"
CELL = "seeded"
#: The heading of figures that a seed makes void.
WITHOUT = "what it would be without the seed"
WARNING = (
    f"{COLUMN}: this run was seeded. Anyone who knows the seed can draw its noise again and"
    " subtract it, so no guarantee holds for any of its output. Publish none of it."
)
PLANNED = (
    f"{COLUMN}: this configuration has a seed, and a run of it protects nobody. Every epsilon here"
    f" is {WITHOUT}: delete run.seed."
)
UNSTATED = (
    "whether these measurements are private is not known: their files do not say who drew the"
    " noise, and how. Their publisher states the guarantee."
)


def weakest(each: Iterable[Private]) -> Private:
    """What can be said of something that rests on all of these.

    >>> weakest([True, UNKNOWN]), weakest([UNKNOWN, False]), weakest([])
    ('unknown', False, True)"""
    found = set(each)
    return False if False in found else UNKNOWN if UNKNOWN in found else True


def marked(value: Mapping[str, Any], private: Private, warning: str = WARNING) -> dict[str, Any]:
    """An object that says whether it is private.

    >>> marked({"a": 1}, True)
    {'private': True, 'a': 1}"""
    return {"private": private} | ({} if private else {"warning": warning}) | dict(value)


def marked_rows(rows: Iterable[Mapping[str, Any]], private: Private) -> list[dict[str, Any]]:
    """Rows that say so if they are not.

    >>> marked_rows([{"a": 1}], False)
    [{'a': 1, 'NOT PRIVATE': 'seeded'}]"""
    mark = {} if private else {COLUMN: CELL}
    return [dict(r) | mark for r in rows]
