"""The catalog of official files, and downloads from a server on this machine."""

from __future__ import annotations

import gc
import hashlib
import io
import os
import threading
import warnings
import zipfile
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from das.errors import InputError
from das.files import fetch
from das.files.fetch import catalog
from tests.told import Told

#: pooch never closes the answer of a server: where an error holds it, it is left to the collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

SHARED = Path(
    os.environ.get("DAS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data")
)
OFFICIAL = SHARED / "pl94_2010" / "ri" / "ri2010.pl.zip"

KNOWN = dict(fetch.KNOWN_SHA256)
RI = "/census_2010/01-Redistricting_File--PL_94-171/Rhode_Island/ri2010.pl.zip"
DC = "/census_2010/01-Redistricting_File--PL_94-171/District_of_Columbia/dc2010.pl.zip"


def archive(
    ss: str, year: str = "2010", suffix: str = "pl", segments: tuple[str, ...] = ("00001", "00002")
) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as z:
        for part in (f"{ss}geo", *(f"{ss}{s}" for s in segments)):
            z.writestr(
                zipfile.ZipInfo(f"{part}{year}.{suffix}"),
                "0123456789" * 500 + part,
                zipfile.ZIP_DEFLATED,
            )
    return out.getvalue()


class Server:
    """Answers paths with bytes, or with what a function of the number of requests gives: (status,
    body, length).
    """

    def __init__(self) -> None:
        self.answers: dict[str, bytes | Callable[[int], tuple[int, bytes, int]]] = {}
        self.requests: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server.requests.append(self.path)
                answer = server.answers.get(self.path)
                status, body = (404, b"not here") if answer is None else (200, answer)
                length = len(body) if isinstance(body, bytes) else 0
                if callable(body):
                    status, body, length = body(server.requests.count(self.path))
                self.send_response(status)
                self.send_header("Content-Length", str(length))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        self.http = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setattr(fetch, "KNOWN_SHA256", {})
    fetch.catalog.cache_clear()
    server = Server()
    thread = threading.Thread(
        target=server.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    yield server
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
    server.http.shutdown()
    server.http.server_close()
    thread.join()
    fetch.catalog.cache_clear()


# --- the catalog
# ------------------------------------------------------------------------------------


def test_catalog_has_every_state_in_every_family() -> None:
    entries = {e.name: e for e in catalog()}
    assert len(entries) == len(catalog()) == 3 * 52 + 1
    assert len({e.url for e in catalog()}) == 157
    assert entries["pl94-2010-ri"].url == f"https://www2.census.gov{RI}"
    assert (
        entries["pl94-2020-pr"].url
        == "https://www2.census.gov/programs-surveys/decennial/2020/data/01-Redistricting_File--PL_94-171/"
        "Puerto_Rico/pr2020.pl.zip"
    )
    assert (
        entries["sf1-2010-nc"].url
        == "https://www2.census.gov/census_2010/04-Summary_File_1/North_Carolina/nc2010.sf1.zip"
    )
    assert entries["pl94-2020-tx"].members == (
        "txgeo2020.pl",
        "tx000012020.pl",
        "tx000022020.pl",
        "tx000032020.pl",
    )


def test_states_are_the_official_table() -> None:
    assert len({s.fips for s in fetch.STATES}) == len({s.usps for s in fetch.STATES}) == 52
    assert [s.fips for s in fetch.STATES] == sorted(s.fips for s in fetch.STATES)
    # FIPS codes that no state has
    assert not {s.fips for s in fetch.STATES} & {"00", "03", "07", "14", "43", "52"}
    members = [sum(s.division == d for s in fetch.STATES) for d in range(10)]
    assert members == [
        1,
        6,
        3,
        5,
        7,
        9,
        4,
        4,
        8,
        5,
    ]  # states and DC in the nine divisions; Puerto Rico in none


def test_digest_of_rhode_island_is_built_in() -> None:
    (ri,) = [e for e in catalog() if e.name == "pl94-2010-ri"]
    assert ri.sha256 == "277ec30be6957ea23edaab8e731caa968c2244e37af582f9229c3fdba5f3e40e"


@pytest.mark.skipif(
    not OFFICIAL.exists(), reason="the official file is not at hand (DAS_SHARED_DATA)"
)
def test_the_official_file_passes_the_check(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[RI] = OFFICIAL.read_bytes()
    monkeypatch.setattr(fetch, "KNOWN_SHA256", KNOWN)
    (path,) = fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert path.stat().st_size == OFFICIAL.stat().st_size


# --- success
# ------------------------------------------------------------------------------------------


def test_files_arrive_and_a_second_call_downloads_nothing(server: Server, tmp_path: Path) -> None:
    server.answers = {RI: archive("ri"), DC: archive("dc")}
    told = Told()
    names = ["pl94-2010-ri", "pl94-2010-dc"]
    paths = fetch.fetch(names, tmp_path / "new", base_url=server.url, progress=told)
    assert [p.name for p in paths] == ["ri2010.pl.zip", "dc2010.pl.zip"]
    assert [p.read_bytes() for p in paths] == [archive("ri"), archive("dc")]
    assert told.stages == [
        (f"fetch {x}2010.pl.zip", len(archive(x)), len(archive(x))) for x in ("ri", "dc")
    ]
    assert sorted(p.name for p in (tmp_path / "new").iterdir()) == [
        "dc2010.pl.zip",
        "ri2010.pl.zip",
    ]
    assert fetch.fetch(names, tmp_path / "new", base_url=server.url + "/") == paths
    assert server.requests == [RI, DC]


def test_a_failing_connection_is_tried_again(server: Server, tmp_path: Path) -> None:
    whole = archive("ri")
    faults = {1: (503, b"busy", 4), 2: (200, whole[:100], len(whole)), 3: (200, whole, len(whole))}
    server.answers[RI] = lambda n: faults[n]
    (path,) = fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert path.read_bytes() == whole
    assert len(server.requests) == 3


def test_a_known_digest_is_checked(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.answers[RI] = archive("ri")
    good = hashlib.sha256(archive("ri")).hexdigest()
    monkeypatch.setattr(fetch, "KNOWN_SHA256", KNOWN)
    with pytest.raises(InputError, match=f"SHA-256 is {good}"):
        fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert not list(tmp_path.iterdir())
    monkeypatch.setattr(fetch, "KNOWN_SHA256", {"pl94-2010-ri": good})
    fetch.catalog.cache_clear()
    fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)


# --- failure
# ------------------------------------------------------------------------------------------


def flipped(data: bytes) -> bytes:
    return data[:60] + bytes([data[60] ^ 0xFF]) + data[61:]


@pytest.mark.parametrize(
    "answer, message",
    [
        (None, "404"),
        (b"<!DOCTYPE html><html>Please log in</html>", "web page"),
        (b"\n  <html>moved</html>", "web page"),
        (archive("ri")[:-40], "not a readable zip"),
        (b"", "not a readable zip"),
        (flipped(archive("ri")), "damaged|not a readable"),
        (archive("ma"), "no member 'rigeo2010.pl'"),
        (archive("ri", segments=("00001",)), "no member 'ri000022010.pl'"),
    ],
)
def test_wrong_content_is_refused_and_leaves_nothing(
    server: Server, tmp_path: Path, answer, message: str
) -> None:
    if answer is not None:
        server.answers[RI] = answer
    with pytest.raises(InputError, match=message) as caught:
        fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert f"{server.url}{RI}" in str(caught.value)
    assert not list(tmp_path.iterdir())
    assert len(server.requests) == 1, "what is wrong is not asked for again"


def test_a_server_that_stays_down_is_one_clear_message(server: Server, tmp_path: Path) -> None:
    server.answers[RI] = lambda n: (500, b"", 0)
    with pytest.raises(InputError, match="failed after 3 attempts"):
        fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert len(server.requests) == 3
    assert not list(tmp_path.iterdir())


def test_no_network_is_one_clear_message(server: Server, tmp_path: Path) -> None:
    server.http.server_close()
    with pytest.raises(InputError, match="check the network") as caught:
        fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert caught.value.exit_code == 2
    assert not list(tmp_path.iterdir())


def test_a_wrong_file_that_is_there_already_is_not_overwritten(
    server: Server, tmp_path: Path
) -> None:
    mine = tmp_path / "ri2010.pl.zip"
    mine.write_bytes(b"my own notes")
    server.answers[RI] = archive("ri")
    with pytest.raises(InputError, match="there already"):
        fetch.fetch(["pl94-2010-ri"], tmp_path, base_url=server.url)
    assert mine.read_bytes() == b"my own notes"
    assert not server.requests


def test_the_1940_file_sends_the_user_to_its_owner(server: Server, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"usa\.ipums\.org/usa/1940CensusDASTestData\.shtml"):
        fetch.fetch(["pl94-2010-ri", "ext1940"], tmp_path, base_url=server.url)
    assert not server.requests, "names are looked up before the first download"


def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'pl94-2010-zz'"):
        fetch.fetch(["pl94-2010-zz"], tmp_path)


def test_a_folder_that_cannot_be_made_is_named(server: Server, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    server.answers[RI] = archive("ri")
    with pytest.raises(InputError, match="taken"):
        fetch.fetch(["pl94-2010-ri"], tmp_path / "taken", base_url=server.url)
