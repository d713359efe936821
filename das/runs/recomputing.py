"""A release checked against its own measurements: everything after them is made again, and must
equal what is published.

Digests and statements cannot show that tables follow from the noisy measurements: anyone who can
write new digests can write new tables. Recomputing can show it. The measurements are sums of the
truth and noise that nobody chose. The rest follows from them and the specification, number for
number."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from das.accounting.document import ALTERED, INTERVALS_LIST, NAME, PAGE
from das.engine import Progress
from das.errors import ReleaseError
from das.files.release import statement
from das.release.publications import estimate_again, publication_of
from das.release.seal import Wording

#: Made from the others, and held against them by themselves.
_SEPARATE = (NAME, PAGE, INTERVALS_LIST)
#: Where the text is that of a version of the software, or of what draws its figures.
_TEXTS = ("report.html", "dictionary.csv", "spec.toml")


def check_recomputed(
    release: Path, wording: Wording, *, workers: int = 1, progress: Progress
) -> None:
    """Estimate again from the measurements of a release that is verified, in a temporary folder,
    and compare every file.

    Raises:
        ReleaseError: a file is another, or one is missing or was added."""
    with TemporaryDirectory(prefix="das-recompute-") as folder:
        made = Path(folder) / "made"
        half = publication_of(release)
        estimate_again(release, made, half, workers=workers, progress=progress)
        again = dict(statement.read(made / "release").digests)
        _compare(release, dict(wording.said.digests), again, wording)


def _compare(release: Path, there: dict[str, str], again: dict[str, str], wording: Wording) -> None:
    for name in sorted({*there, *again} - set(_SEPARATE)):
        if there.get(name) == again.get(name):
            continue
        what = (
            "is not made from these measurements"
            if name not in again
            else "is made from these measurements, and not here"
            if name not in there
            else "is not what these measurements give, estimated again"
        )
        if name in _TEXTS and name in there and name in again:
            wording.differs(what, release / name)
        else:
            raise ReleaseError(
                what,
                where=release / name,
                remedy=f"{ALTERED}; on another kind of machine a last digit may round "
                "otherwise: recompute it where it was made",
            )
