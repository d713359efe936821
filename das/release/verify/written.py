"""What software writes, written again and compared with the release: pages, the dictionary, and the
sentences of a statement.

Their text depends on the version that wrote it, which the statement names and which anybody can
alter. So they are always written again: where they are the same, no version matters. Where they
differ and the version named is the one at work, the release is altered. Where another is named
nobody can tell, and it is refused, unless the reader says that another version may have written it
(``other_version``): then what was left out is said."""

from __future__ import annotations

from itertools import zip_longest
from pathlib import Path

from das.accounting.document import NAME, PAGE, Statement
from das.files.run import run_directory
from das.release import dictionary
from das.release.seal import page
from das.release.wording import Wording


def check_page(release: Path, wording: Wording, name: str) -> None:
    """The page of a release called ``name``, written again."""
    if page(wording.said, name) != run_directory.read_text(release / PAGE, "page"):
        wording.differs("is not the page of this statement, written again", release / PAGE)


def check_says(release: Path, wording: Wording, again: Statement) -> None:
    """Sentence by sentence ``what_this_means``."""
    for one, other in zip_longest(again.says, wording.said.says):
        if one == other:
            continue
        if one is not None and one not in wording.said.says:
            what = f"it does not say: {one}"
        elif other is not None and other not in again.says:
            what = f"it says what does not follow from the release: {other}"
        else:
            what = f"it says twice, or in another place: {other or one}"
        wording.differs(what, release / NAME, "what_this_means")
        return


def check_dictionary(release: Path, wording: Wording, again: str) -> None:
    """Line by line what the specification gives. Before anything is post-processed there is
    none.
    """
    path = release / dictionary.NAME
    if not path.exists():
        return
    said = run_directory.read_text(path, "data dictionary")
    for i, (one, other) in enumerate(zip_longest(said.splitlines(), again.splitlines())):
        if one != other:
            wording.differs(
                "this line is not what the specification gives",
                f"{path}, line {i + 1}",
                dictionary.NAME,
            )
            return
