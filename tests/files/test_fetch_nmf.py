"""The noisy measurement files of a state, fetched from a server with the bucket's listing protocol,
which breaks off where it likes."""

from __future__ import annotations

import json
import threading
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

import numpy as np
import pytest
from click.testing import CliRunner

from das import cli
from das.errors import InputError
from das.publications.published import fetch
from das.publications.published.fetch import MANIFEST, PRODUCTS, NmfRequest, state_of

pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning")

PERSONS = f"{PRODUCTS['persons'].prefix}/US_Person_PL_PROD"
DHC = f"{PRODUCTS['dhc'].prefix}/US_DHCP_PROD"


class Bucket:
    """Objects by key, listed two at a time; each answer breaks off after as many bytes as
    ``limits`` says, one after the other."""

    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}
        self.limits: Iterator[int] = iter(())
        self.ranges = True
        self.asked: list[tuple[str, str]] = []
        bucket = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                url = urlsplit(self.path)
                if url.query:
                    self._answer(200, bucket.page(parse_qs(url.query)))
                    return
                key, said = unquote(url.path[1:]), self.headers.get("Range", "")
                bucket.asked.append((key, said))
                if key not in bucket.objects:
                    self._answer(404, b"")
                    return
                start = int(said[6:-1]) if said and bucket.ranges else 0
                body = bucket.objects[key][start:]
                self._answer(206 if start else 200, body, next(bucket.limits, len(body)))

            def _answer(self, status: int, body: bytes, limit: int | None = None) -> None:
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body if limit is None else body[:limit])

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_port}"

    def page(self, query: dict[str, list[str]]) -> bytes:
        keys = sorted(k for k in self.objects if k.startswith(query["prefix"][0]))
        start = int(query.get("continuation-token", ["0"])[0].partition("/")[0])
        root = ET.Element("ListBucketResult", xmlns="http://s3.amazonaws.com/doc/2006-03-01/")
        for key in keys[start : start + 2]:
            entry = ET.SubElement(root, "Contents")
            ET.SubElement(entry, "Key").text = key
            ET.SubElement(entry, "Size").text = str(len(self.objects[key]))
        more = start + 2 < len(keys)
        ET.SubElement(root, "IsTruncated").text = "true" if more else "false"
        if more:
            ET.SubElement(root, "NextContinuationToken").text = f"{start + 2}/+="
        return ET.tostring(root)

    def put(self, prefix: str, levels: dict[str, list[str]]) -> None:
        """A file of some bytes for each level, folder and kind, and what Spark leaves."""
        rng = np.random.default_rng(3)
        for level, folders in levels.items():
            for folder in folders:
                for kind in ("DPQuery", "Constraint"):
                    at = f"{prefix}/{level}.parquet/{kind}/{folder}"
                    self.objects[f"{at}/part-0.snappy.parquet"] = rng.bytes(
                        int(rng.integers(50, 900))
                    )
                    self.objects[f"{at}/_SUCCESS"] = b""


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    bucket = Bucket()
    thread = threading.Thread(
        target=bucket.http.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
    )
    thread.start()
    parts = ["State=036", "State=136"]
    bucket.put(PERSONS, dict.fromkeys(PRODUCTS["persons"].levels, parts))
    bucket.put(PERSONS, {"State": ["State=042"]})
    yield bucket
    bucket.http.shutdown()
    bucket.http.server_close()
    thread.join()


def request(product: str = "persons", levels: tuple[str, ...] = (), **more: str) -> NmfRequest:
    return NmfRequest(state_of("nmf-2020-ny"), product, levels, **more)


def whole(folder: Path, bucket: Bucket) -> None:
    """Every file is where the bucket has it, as it is there, and its digest is noted."""
    noted = json.loads((folder / "US_Person_PL_PROD" / MANIFEST).read_text(encoding="utf-8"))
    keys = [k for k in bucket.objects if "State=042" not in k and not k.endswith("_SUCCESS")]
    assert sorted(noted) == sorted(keys)
    for key in keys:
        path = folder / key.removeprefix(f"{PRODUCTS['persons'].prefix}/")
        assert path.read_bytes() == bucket.objects[key]
    assert not list(folder.glob(".*"))


def test_a_state_is_listed_with_both_parts_before_anything_is_fetched(bucket: Bucket) -> None:
    files = fetch.listed(request(), bucket.url)
    assert len(files) == 5 * 2 * 2  # levels, parts, kinds
    assert sum(f.size for f in files) == sum(
        len(v) for k, v in bucket.objects.items() if "State=042" not in k
    )
    assert bucket.asked == []
    some = fetch.listed(request(levels=("State", "County")), bucket.url)
    assert {f.path.split("/")[1] for f in some} == {"State.parquet", "County.parquet"}


@pytest.mark.parametrize("seed", range(2))
def test_a_download_that_breaks_off_goes_on_and_is_whole_or_not_there(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fetch, "CHUNK", 16)
    rng = np.random.default_rng(seed)
    files = fetch.listed(request(), bucket.url)
    broken = 0
    while broken < 100:
        bucket.limits = iter(rng.integers(0, 400, 40).tolist())
        try:
            fetch.fetch(request(), files, tmp_path, bucket.url)
            break
        except InputError:
            broken += 1
            assert not (tmp_path / "US_Person_PL_PROD").exists()
    assert 0 < broken < 100
    whole(tmp_path, bucket)
    assert any(said for _, said in bucket.asked)
    asked = len(bucket.asked)
    fetch.fetch(request(), files, tmp_path, bucket.url)
    assert len(bucket.asked) == asked  # nothing is fetched twice


def test_a_server_without_ranges_begins_again(bucket: Bucket, tmp_path: Path) -> None:
    bucket.ranges, bucket.limits = False, iter([20])
    fetch.fetch(request(), fetch.listed(request(), bucket.url), tmp_path, bucket.url)
    whole(tmp_path, bucket)


def test_half_a_branch_is_refused(bucket: Bucket) -> None:
    for key in [k for k in bucket.objects if "Tract.parquet" in k and "State=136" in k]:
        del bucket.objects[key]
    with pytest.raises(InputError, match="part 136 has no files at level Tract"):
        fetch.listed(request(), bucket.url)


def test_counties_of_the_dhc(bucket: Bucket) -> None:
    counties = [f"State=036/County=03610{c}" for c in ("001", "003")]
    bucket.put(DHC, {"State": ["State=036", "State=136"], "County": counties})
    assert len(fetch.listed(request("dhc", county="003"), bucket.url)) == 2 * 2 + 2
    with pytest.raises(InputError, match="no files at level County"):
        fetch.listed(request("dhc", county="005"), bucket.url)


@pytest.mark.parametrize(
    "make, word",
    [
        (lambda: request(county="001"), "are by state"),
        (lambda: request("dhc", county="1"), "no code of a county"),
        (lambda: request(levels=("Ward",)), "no level 'Ward'"),
        (lambda: state_of("nmf-2020-xx"), "no state is called 'xx'"),
    ],
)
def test_what_there_is_not_is_refused(make: object, word: str) -> None:
    with pytest.raises(InputError, match=word):
        make()  # type: ignore[operator]


def test_a_disk_that_is_too_small_is_told_first(
    bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = fetch.listed(request(), bucket.url)
    monkeypatch.setattr(fetch, "_SPARE", 1 << 60)
    with pytest.raises(InputError, match="GB are free"):
        fetch.fetch(request(), files, tmp_path, bucket.url)
    assert bucket.asked == []


def test_the_command_says_the_size_and_lists(bucket: Bucket, tmp_path: Path) -> None:
    args = ["data", "fetch", "nmf-2020-ny", "--product", "persons", "--mirror", bucket.url]
    done = CliRunner().invoke(cli.main, [*args, "--out", str(tmp_path / "x"), "--list"])
    assert done.exit_code == 0, done.output
    assert done.output.count(".parquet\n") == 20
    assert "US_Person_PL_PROD: 20 files, 0.0 MB" in done.output
    assert not (tmp_path / "x").exists()
    done = CliRunner().invoke(cli.main, [*args, "--out", str(tmp_path / "x"), "--quiet"])
    assert done.exit_code == 0, done.output
    whole(tmp_path / "x", bucket)
    done = CliRunner().invoke(cli.main, ["data", "fetch", "pl94-2020-ri", "--out", "y", "--list"])
    assert done.exit_code == 2
    assert "goes with noisy measurement files" in done.output


def test_offline_it_prints_addresses(bucket: Bucket, tmp_path: Path) -> None:
    args = ["data", "fetch", "nmf-2020-ny", "--out", str(tmp_path), "--quiet"]
    done = CliRunner().invoke(cli.main, [*args, "--mirror", "http://127.0.0.1:9"])
    assert done.exit_code == 2
    assert "the list of files cannot be read" in done.output
    assert "aws s3 sync --no-sign-request s3://uscb-2020-product-releases/decennial" in done.output
    assert "State=[01]36" in done.output
    assert not list(tmp_path.iterdir())
