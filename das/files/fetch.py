"""Official public files: which exist, where they are, and how to fetch them.

Downloads go through ``pooch``: into a temporary file in the target's folder, retried when the
connection fails, checked, and only then moved under the final name. So a file under its final name
is whole, and a second call finds it and downloads nothing.

Sources: the directory listings of https://www2.census.gov; IPUMS USA for the 1940 file."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import NamedTuple

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files.atomic import file_digest
from das.model.names import STATES, State

CENSUS = "https://www2.census.gov"
IPUMS_1940 = "https://usa.ipums.org/usa/1940CensusDASTestData.shtml"
TIMEOUT = 60  #: seconds without an answer before a connection counts as failed
RETRIES = 2
#: Digests checked against files at hand; the others are not published by the source.
KNOWN_SHA256 = {"pl94-2010-ri": "277ec30be6957ea23edaab8e731caa968c2244e37af582f9229c3fdba5f3e40e"}


@dataclass(frozen=True)
class OfficialFile:
    """One official file: ``url`` is where it is, or, when ``manual``, the page where a person asks
    for it.

    ``members`` are the names that the zip must contain."""

    name: str
    url: str
    members: tuple[str, ...] = ()
    sha256: str | None = None
    manual: bool = False

    @property
    def filename(self) -> str:
        return self.url.rsplit("/", 1)[1]


@cache
def catalog() -> tuple[OfficialFile, ...]:
    """Every file that ``fetch`` knows: three families of 52 (states, DC, Puerto Rico), and the 1940
    file.

    >>> [e.url for e in catalog() if e.name == "pl94-2010-dc"]
    ['https://www2.census.gov/census_2010/01-Redistricting_File--PL_94-171/District_of_Columbia/dc2010.pl.zip']
    """
    entries = [_entry(family, state) for family in _FAMILIES for state in STATES]
    return (*entries, OfficialFile("ext1940", IPUMS_1940, manual=True))


class _Family(NamedTuple):
    name: str
    path: str
    suffix: str
    members: tuple[str, ...]


_FAMILIES = (
    _Family(
        "pl94-2010",
        "census_2010/01-Redistricting_File--PL_94-171",
        "2010.pl.zip",
        ("{ss}geo2010.pl", "{ss}000012010.pl", "{ss}000022010.pl"),
    ),
    _Family(
        "pl94-2020",
        "programs-surveys/decennial/2020/data/01-Redistricting_File--PL_94-171",
        "2020.pl.zip",
        ("{ss}geo2020.pl", "{ss}000012020.pl", "{ss}000022020.pl", "{ss}000032020.pl"),
    ),
    _Family(
        "sf1-2010",
        "census_2010/04-Summary_File_1",
        "2010.sf1.zip",
        ("{ss}geo2010.sf1", "{ss}000062010.sf1"),
    ),
)


def _entry(family: _Family, state: State) -> OfficialFile:
    ss = state.usps.lower()
    name = f"{family.name}-{ss}"
    return OfficialFile(
        name,
        f"{CENSUS}/{family.path}/{state.name.replace(' ', '_')}/{ss}{family.suffix}",
        tuple(m.format(ss=ss) for m in family.members),
        KNOWN_SHA256.get(name),
    )


def fetch(
    names: Sequence[str],
    directory: Path,
    *,
    base_url: str | None = None,
    progress: Progress = SILENT,
) -> list[Path]:
    """Download the files called ``names`` into ``directory``; existing files are only checked.

    Parameters
    ----------
    base_url : stands for ``https://www2.census.gov``: a mirror with the same paths.

    Returns
    -------
    The paths, in the order of ``names``.

    Raises
    ------
    InputError : an unknown name; a file that only a person can ask for; no network; a missing page;
        a file that is not the zip it should be, or has another digest. All names are looked up
        before the first download, and a file that fails its check is never left under its final
        name."""
    known = {e.name: e for e in catalog()}
    entries = [_lookup(name, known) for name in names]
    return [_get(e, Path(directory), base_url or CENSUS, progress) for e in entries]


def _lookup(name: str, known: Mapping[str, OfficialFile]) -> OfficialFile:
    if name not in known:
        raise InputError(
            f"no official file is called {name!r}",
            where="fetch",
            remedy=(
                "run 'das data list' for the names: pl94-2010-ri, pl94-2020-tx, sf1-2010-dc, ..."
            ),
        )
    entry = known[name]
    if entry.manual:
        raise InputError(
            f"{name} cannot be downloaded automatically: its owner asks each user to register",
            where="fetch",
            remedy=(
                f"register (free) at {entry.url}, download EXT1940USCB.dat.gz there, and give its"
                " path with --data"
            ),
        )
    return entry


def _get(entry: OfficialFile, directory: Path, base_url: str, progress: Progress) -> Path:
    target = directory / entry.filename
    if target.exists():
        try:
            _check(target, entry)
        except InputError as error:
            remedy = "delete it, or move it away, and fetch again"
            raise InputError(
                f"the file that is there already is not the official one: {error.what}",
                where=target,
                remedy=remedy,
            ) from None
        return target
    _download(entry, directory, entry.url.replace(CENSUS, base_url.rstrip("/"), 1), progress)
    return target


_MOVED = "open the address in a browser; where the file has moved, download it by hand"
_UNREACHABLE = (
    "check the network and proxy settings, or download the file by hand and give its path with"
    " --data"
)


def _download(entry: OfficialFile, directory: Path, url: str, progress: Progress) -> None:
    import pooch
    import requests

    pooch.get_logger().setLevel("WARNING")
    bar = _Bar(entry.filename, progress)
    http = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 20, timeout=TIMEOUT)

    def download(source: str, output: str, _: object) -> None:
        try:
            http(source, output, None)
        except requests.HTTPError as error:
            response = error.response
            if response is None or response.status_code >= 500:
                raise
            answer = f"the server answers {response.status_code} ({response.reason})"
            raise InputError(answer, where=url, remedy=_MOVED) from None
        _check(Path(output), entry, url)

    store = pooch.create(
        directory,
        "",
        urls={entry.filename: url},
        registry={entry.filename: None},
        retry_if_failed=RETRIES,
    )
    try:
        store.fetch(entry.filename, downloader=download)
    except requests.RequestException as error:
        raise InputError(
            f"the download failed after {RETRIES + 1} attempts ({type(error).__name__})",
            where=url,
            remedy=_UNREACHABLE,
        ) from error
    except OSError as error:
        raise InputError(
            f"cannot write the file: {error.strerror or error}", where=directory / entry.filename
        ) from error


def _check(path: Path, entry: OfficialFile, where: object | None = None) -> None:
    """Refuse what is not a whole zip with the expected members and digest."""
    where = where or path
    with path.open("rb") as f:
        head = f.read(512)
    if head.lstrip()[:1] == b"<":
        raise InputError(
            "this is a web page, not a zip file",
            where=where,
            remedy="a proxy or log-in page may stand in the way; open the address in a browser",
        )
    again = "fetch it again; if that does not help, download it by hand"
    try:
        with zipfile.ZipFile(path) as z:
            present, damaged = set(z.namelist()), z.testzip()
    except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
        raise InputError(
            "this is not a readable zip file: cut short or damaged", where=where, remedy=again
        ) from error
    if damaged:
        raise InputError(f"member {damaged!r} is damaged", where=where, remedy=again)
    if missing := [m for m in entry.members if m not in present]:
        raise InputError(
            f"the zip file has no member {missing[0]!r}",
            where=where,
            remedy="is it the file of another state?",
        )
    if entry.sha256 is not None and (digest := file_digest(path)) != entry.sha256:
        raise InputError(f"SHA-256 is {digest}, not {entry.sha256}", where=where, remedy=again)


class _Bar:
    """The progress object that ``pooch`` drives: it tells the total as an attempt begins and, as
    that ends, all again."""

    def __init__(self, name: str, progress: Progress) -> None:
        self.name, self.progress = name, progress
        self._total = self._done = self._told = 0

    @property
    def total(self) -> int:
        return self._total

    @total.setter
    def total(self, size: int) -> None:
        self._total, self._done, self._told = size, 0, 0
        self.progress.stage(f"fetch {self.name}", size or None)

    def update(self, size: int) -> None:
        self._done = min(self._done + size, self._total or self._done + size)
        if self._done > self._told:
            self.progress.advance(self._done - self._told)
            self._told = self._done

    def reset(self) -> None:
        self._done = 0

    def close(self) -> None:
        """Nothing to do: the next stage closes this one."""
