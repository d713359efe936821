"""Labels: what a person reads where a file has a code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from das.errors import SpecError

#: Between the parts of a label.
BESIDE = ", "
#: The column, and the words in a title, for counts that rest on an attribute assigned by a rule.
NOT_COUNTED = "NOT COUNTED"


@dataclass(frozen=True)
class HeadingWords:
    """The words of headings that are no label of an attribute: of the ``total``, between attributes
    that are crossed (``by``), and of all of them crossed (``everything``)."""

    total: str = "Total"
    by: str = "by"
    everything: str = "All attributes crossed"

    def __post_init__(self) -> None:
        if blank := [k for k, v in vars(self).items() if not v.strip()]:
            raise SpecError(
                f"the word for {blank[0]!r} is empty",
                where="schema.words",
                remedy="write a word, or leave the key out",
            )


ENGLISH = HeadingWords()


def checked(
    name: str, codes: tuple[str, ...], title: str, labels: tuple[str, ...], where: str
) -> tuple[str, tuple[str, ...]]:
    """Title and labels with what is missing filled in: the name, and the codes themselves.

    Raises:
        SpecError: another number of labels than codes, or two codes with one label.
    """
    labels = labels or codes
    if len(labels) != len(codes) or len(set(labels)) != len(labels):
        raise SpecError(
            f"{len(labels)} labels, {len(set(labels))} of them different, for {len(codes)} codes",
            where=where,
            remedy="give each code a label of its own",
        )
    return title or name, labels


def exchanged(
    codes: tuple[str, ...], labels: tuple[str, ...], new: Mapping[str, str], where: str
) -> tuple[str, ...]:
    """``labels`` with those of some codes replaced.

    Raises:
        SpecError: a label for a code that there is not.
    """
    if unknown := [c for c in new if c not in codes]:
        raise SpecError(
            f"no level {unknown[0]!r} to label", where=where, remedy=f"there are {', '.join(codes)}"
        )
    return tuple(new.get(c, label) for c, label in zip(codes, labels, strict=True))


def level_words(level: str) -> str:
    """A level of the tree as a reader writes it.

    >>> level_words("Block_Group"), level_words("US"), level_words("Census_US_Region")
    ('Block group', 'US', 'Census US region')
    """
    first, *rest = level.split("_", 1)
    return " ".join([first, *map(level_inside, rest)])


def level_inside(level: str) -> str:
    """The name of a level within a sentence.

    >>> level_inside("Block_Group"), level_inside("US")
    ('block group', 'US')
    """
    return " ".join(w.lower() if w.istitle() else w for w in level.split("_"))
