"""The noisy measurement files of 2020: a state's files, listed and fetched from the Bureau's bucket.

The bucket ``uscb-2020-product-releases`` is public and speaks the listing protocol of S3:
``GET /?list-type=2&prefix=...`` answers with the keys and sizes of at most 1,000 objects, and a
token for the next ones. So everything is known before the first download: which files there are,
and how large.

*Whole branches.* A state can have two parts: its American Indian areas (``State=1SS``) and the rest
(``State=0SS``). Both are taken at every level, or nothing is. Files stand in a hidden folder until
all of a product have arrived, and are then moved to where the Bureau has them. So the folder that
``das estimate --from`` reads never holds half a state.

*Resuming.* A file of the listed size is kept. One that stopped on the way goes on from its last
byte, by a range request. The SHA-256 of every file is in ``_fetched.json``.

Sources: the registry of open data on AWS; the Bureau's own reader of these files for the folders.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from das.engine.tasks import SILENT, Progress
from das.errors import InputError
from das.files import atomic
from das.files.fetch import RETRIES, TIMEOUT
from das.model.names import STATES, State
from das.model.spelling import near

BUCKET = "https://uscb-2020-product-releases.s3.us-west-2.amazonaws.com"
FAMILY = "nmf-2020-"
MANIFEST = "_fetched.json"
_REDISTRICTING = "decennial/redistricting/2020/nmf/2020-pl94-nmf-state-partitioned"
_REDISTRICTED = ("State", "County", "Tract", "Block_Group", "Block")
#: Bytes that are written at once. What a broken connection has sent of the next ones is lost.
CHUNK = 1 << 16
#: Free space that a disk keeps.
_SPARE = 1 << 28


@dataclass(frozen=True)
class NmfProduct:
    """One product: its prefix in the bucket, the end of its folder's name, and its levels."""

    prefix: str
    folder: str
    levels: tuple[str, ...]
    usual: tuple[str, ...]  #: the levels that are fetched unasked
    counties: bool = False  #: whether its files are by county


PRODUCTS = {
    "persons": NmfProduct(_REDISTRICTING, "Person_PL_PROD", _REDISTRICTED, _REDISTRICTED),
    "units": NmfProduct(_REDISTRICTING, "Unit_PL_PROD", _REDISTRICTED, _REDISTRICTED),
    "dhc": NmfProduct(
        "decennial/dhc/2020/nmf/2020-dhc-nmf",
        "DHCP_PROD",
        ("State", "County", "Prim", "Tract_Subset_Group", "Tract_Subset", "Block_Group", "Block"),
        ("State", "County"),
        counties=True,
    ),
}


@dataclass(frozen=True)
class BucketFile:
    """One file of the bucket, and where it goes below the output folder."""

    key: str
    size: int
    path: str


@dataclass(frozen=True)
class NmfRequest:
    """What is wanted: a state's files of a product, at some levels, of one county or of all."""

    state: State
    product: str
    levels: tuple[str, ...] = ()
    county: str | None = None

    def __post_init__(self) -> None:
        kind = PRODUCTS[self.product]
        if lost := [level for level in self.levels if level not in kind.levels]:
            raise InputError(
                f"the files of {self.product} have no level {lost[0]!r}",
                where="--levels",
                remedy=near(lost[0], kind.levels, "levels"),
            )
        if self.county is not None and not kind.counties:
            raise InputError(
                f"the files of {self.product} are by state",
                where="--county",
                remedy="leave it out, or take --product dhc",
            )
        if self.county is not None and not (len(self.county) == 3 and self.county.isdigit()):
            raise InputError(
                f"{self.county!r} is no code of a county",
                where="--county",
                remedy="give its three digits, such as 007",
            )

    @property
    def folder(self) -> str:
        """The folder of the product."""
        nation = "PR" if self.state.usps == "PR" else "US"
        return f"{nation}_{PRODUCTS[self.product].folder}"

    def prefixes(self) -> Iterator[tuple[str, str, str]]:
        """Level, part and prefix of every folder of files that there may be."""
        kind = PRODUCTS[self.product]
        for level in self.levels or kind.usual:
            for part in (f"0{self.state.fips}", f"1{self.state.fips}"):
                for what in ("DPQuery", "Constraint"):
                    end = f"{level}.parquet/{what}/State={part}/"
                    if self.county is not None and level != "State":
                        end += f"County={part}10{self.county}/"
                    yield level, part, f"{kind.prefix}/{self.folder}/{end}"

    def by_hand(self) -> str:
        """How a person gets the files."""
        at = f"{PRODUCTS[self.product].prefix}/{self.folder}"
        return (
            f"aws s3 sync --no-sign-request s3://uscb-2020-product-releases/{at} {self.folder}"
            f" --exclude '*' --include '*/State=[01]{self.state.fips}/*'"
        )


def catalog() -> Iterator[tuple[str, str]]:
    """The name and the address of each state's files.

    >>> dict(catalog())["nmf-2020-ri"]
    'https://uscb-2020-product-releases.s3.us-west-2.amazonaws.com/decennial/redistricting/2020/nmf/2020-pl94-nmf-state-partitioned'
    """
    return ((f"{FAMILY}{s.usps.lower()}", f"{BUCKET}/{_REDISTRICTING}") for s in STATES)


def state_of(name: str) -> State:
    """The state that a name such as ``nmf-2020-ri`` means. Raises :class:`InputError`."""
    known = {s.usps.lower(): s for s in STATES}
    usps = name.removeprefix(FAMILY).lower()
    if usps not in known:
        raise InputError(
            f"no state is called {usps!r}",
            where=name,
            remedy="give its postal abbreviation, such as nmf-2020-ri",
        )
    return known[usps]


def listed(wanted: NmfRequest, base_url: str = BUCKET) -> list[BucketFile]:
    """The files of a request, in whole branches.

    Raises:
        InputError: no connection (with the addresses), no file at all, or a part that is not there
            at every level."""
    found: dict[tuple[str, str], list[BucketFile]] = {}
    base = base_url.rstrip("/")
    for level, part, prefix in wanted.prefixes():
        cut = len(PRODUCTS[wanted.product].prefix) + 1
        here = [
            BucketFile(key, size, key[cut:])
            for key, size in _objects(base, prefix, wanted)
            if not key.endswith(("/", ".crc", "_SUCCESS"))
        ]
        found.setdefault((level, part), []).extend(here)
    parts = sorted({part for (_, part), files in found.items() if files})
    if not parts:
        raise InputError(
            f"there are no files of {wanted.product} for {wanted.state.name}",
            where=base,
            remedy=f"look there, or try: {wanted.by_hand()}",
        )
    for (level, part), files in found.items():
        of_level = [f for p in parts for f in found[level, p]]
        if not (files or part not in parts or (wanted.county is not None and of_level)):
            raise InputError(
                f"part {part} has no files at level {level}: a branch must be whole",
                where=base,
                remedy="try again later, or name the levels that are there with --levels",
            )
    return [file for files in found.values() for file in files]


def _objects(base: str, prefix: str, wanted: NmfRequest) -> Iterator[tuple[str, int]]:
    """Keys and sizes of everything under a prefix, page by page."""
    token: str | None = None
    while True:
        more = "" if token is None else f"&continuation-token={quote(token, safe='')}"
        root = _page(f"{base}/?list-type=2&prefix={quote(prefix)}{more}", wanted)
        for entry in root.iter():
            if _tag(entry) == "Contents":
                said = {_tag(e): e.text or "" for e in entry}
                yield said["Key"], int(said["Size"])
        ends = {_tag(e): e.text or "" for e in root}
        if ends.get("IsTruncated") != "true":
            return
        token = ends["NextContinuationToken"]


def _page(url: str, wanted: NmfRequest) -> ET.Element:
    """One page of the listing. Raises :class:`InputError`."""
    import requests

    try:
        for attempt in range(RETRIES + 1):
            answer = requests.get(url, timeout=TIMEOUT)
            if answer.status_code < 500 or attempt == RETRIES:
                break
        answer.raise_for_status()
        return ET.fromstring(answer.content)
    except (requests.RequestException, ET.ParseError) as error:
        raise InputError(
            f"the list of files cannot be read ({type(error).__name__})",
            where=url,
            remedy=f"check the network, or: {wanted.by_hand()}",
        ) from None


def _tag(element: ET.Element) -> str:
    return element.tag.rpartition("}")[2]


def fetch(
    wanted: NmfRequest,
    files: Sequence[BucketFile],
    out: Path,
    base_url: str = BUCKET,
    progress: Progress = SILENT,
) -> Path:
    """Download the listed ``files`` that are not there yet; returns the product's folder below
    ``out``.

    Raises:
        InputError: the disk is too small, or a file does not arrive with its size. What has arrived
            is kept for the next call."""
    final, draft = out / wanted.folder, out / f".{wanted.folder}.part"
    todo = [f for f in files if _size(out / f.path) != f.size]
    left = sum(f.size - min(_size(_draft(draft, f)), f.size) for f in todo)
    out.mkdir(parents=True, exist_ok=True)
    if (free := shutil.disk_usage(out).free) < left + _SPARE:
        raise InputError(
            f"{left / 1e9:,.2f} GB are to be fetched, and {free / 1e9:,.2f} GB are free",
            where=out,
            remedy="choose another --out, or fewer --levels",
        )
    progress.stage(f"fetch {wanted.folder}", sum(f.size for f in todo) or None)
    for file in todo:
        _get(file, _draft(draft, file), base_url.rstrip("/"), progress)
    with atomic.files([out / f.path for f in todo]) as drafts:
        for file, path in zip(todo, drafts, strict=True):
            atomic.link(_draft(draft, file), path)
    shutil.rmtree(draft, ignore_errors=True)
    _note(final, files, out)
    return final


def _draft(draft: Path, file: BucketFile) -> Path:
    """Where a file is until its product is whole."""
    return draft / hashlib.sha256(file.key.encode()).hexdigest()[:32]


def _size(path: Path) -> int:
    """The bytes of a file; 0 where there is none, which no file of a listing has."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _get(file: BucketFile, target: Path, base: str, progress: Progress) -> None:
    """A file, from where it stopped the last time."""
    import pooch
    import requests

    target.parent.mkdir(parents=True, exist_ok=True)
    url, fault = f"{base}/{quote(file.key)}", ""
    progress.advance(min(_size(target), file.size))
    for _ in range(RETRIES + 1):
        if (there := _size(target)) == file.size:
            return
        if there > file.size:
            target.unlink()
            there = 0
        headers = {"Range": f"bytes={there}-"} if there else {}
        http = pooch.HTTPDownloader(chunk_size=CHUNK, timeout=TIMEOUT, headers=headers)
        try:
            with target.open("ab") as stream:
                http(url, stream, None)
            fault = "it is not as long as listed"
        except requests.RequestException as error:
            fault = type(error).__name__
        progress.advance(max(0, min(_size(target), file.size) - there))
    if _size(target) != file.size:
        if _size(target) > file.size:
            target.unlink()
        raise InputError(
            f"this file did not arrive after {RETRIES + 1} attempts ({fault})",
            where=url,
            remedy="run the same command again: it goes on from here",
        )


def _note(final: Path, files: Sequence[BucketFile], out: Path) -> None:
    """Keep the digests of all files that were fetched, also those of earlier calls."""
    path = final / MANIFEST
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
    new: Mapping[str, Any] = {f.key: _said(out / f.path) for f in files}
    atomic.write_json(path, dict(sorted({**known, **new}.items())))


def _said(path: Path) -> dict[str, object]:
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return {"bytes": path.stat().st_size, "sha256": digest}
