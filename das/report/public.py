"""What every page for the public begins and ends with: whose numbers it shows, and where the files
are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from das.model.listed_files import ListedFile, TableFiles
from das.model.spine import Spine


@dataclass(frozen=True)
class PublicFrame:
    """``place`` is the name of the place, ``what`` the publication in words, ``run`` the name of
    the run, ``version`` that of the software."""

    place: str
    what: str
    run: str
    version: str
    tables: Sequence[TableFiles] = ()
    files: Sequence[ListedFile] = ()

    @property
    def title(self) -> str:
        return f"{self.place}: {self.what}"


def place_of(spine: Spine, other: str) -> str:
    """The smallest named place that holds everybody, or the few that do together; ``other`` where
    they have no names.
    """
    names: list[str] = []
    for depth, level in enumerate(spine.levels):
        here = [str(name) for name in spine.names[depth][: FEW + 1] if name]
        if spine.units(level) > 1:
            if not names and spine.levels[0] == NATION and spine.units(level) >= STATES:
                return "United States"
            if not names and len(here) == spine.units(level) <= FEW:
                return f"{', '.join(here[:-1])} and {here[-1]}"
            break
        names += here
    return ", ".join(reversed(names[-2:])) or other


#: The level that is the nation, which its files give no name, and the least states that it has.
NATION, STATES = "US", 50
#: Places that a title names.
FEW = 3


def in_bytes(size: int) -> str:
    """The size of a file as a person reads it.

    >>> in_bytes(320), in_bytes(47_445), in_bytes(4_643_126)
    ('1 kB', '47 kB', '4.6 MB')
    """
    if size < 999_500:
        return f"{max(1, round(size / 1000)):,} kB"
    return f"{size / 1_000_000:,.1f} MB"
