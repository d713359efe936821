"""An S3 of this process (moto's server), and a connection that is cut."""

from __future__ import annotations

import logging
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from threading import Lock, Thread
from urllib.parse import parse_qsl, urlencode, urlsplit
from urllib.request import Request, urlopen

import pytest

from das.files.store import Store


class S3:
    """Buckets on a port of this machine."""

    def __init__(self, port: int) -> None:
        from pyarrow import fs

        self.port = port
        self._fs = fs.S3FileSystem(
            endpoint_override=f"127.0.0.1:{port}",
            scheme="http",
            region="us-east-1",
            allow_bucket_creation=True,
        )

    def bucket(self, name: str) -> str:
        self._fs.create_dir(name)
        return name

    def url(self, path: str, port: int | None = None) -> str:
        """``BUCKET/PREFIX``, by way of another port."""
        where = {
            "endpoint_override": f"127.0.0.1:{port or self.port}",
            "scheme": "http",
            "region": "us-east-1",
        }
        return f"s3://{path}?{urlencode(where)}"

    def objects(self, path: str) -> dict[str, bytes]:
        """All that is there, with its content: from the memory of the server, for a request for
        each object takes longer than what the tests are about.
        """
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        name, _, prefix = path.partition("/")
        keys = s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[name].keys
        inside = f"{prefix}/" if prefix else ""
        return {
            key.removeprefix(inside): keys[key].value
            for key in sorted(keys)
            if key.startswith(inside) and not key.endswith("/")
        }

    def put(self, path: str, data: bytes) -> None:
        with self._fs.open_output_stream(path, compression=None) as stream:
            stream.write(data)

    def delete(self, path: str) -> None:
        self._fs.delete_file(path)


_real = Store.at


def at_once(url: str, *, confidential: bool = False) -> Store:
    """The store of a URL, which fails where its connection does: pyarrow tries for six seconds
    more.
    """
    from pyarrow import fs

    store, options = _real(url, confidential=confidential), dict(parse_qsl(urlsplit(url).query))
    if "endpoint_override" not in options:
        return store
    return replace(
        store,
        _fs=fs.S3FileSystem(
            **options, retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1)
        ),
    )


@contextmanager
def running() -> Iterator[S3]:
    """Skips where moto is not installed: `pip install 'topdown-das[test]'`."""
    server = pytest.importorskip("moto.server", reason="moto's server stands in for S3")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)
    with pytest.MonkeyPatch.context() as patch:
        said: Mapping[str, str] = {
            "AWS_ACCESS_KEY_ID": "key",
            "AWS_SECRET_ACCESS_KEY": "secret",
            "AWS_EC2_METADATA_DISABLED": "true",
            "AWS_MAX_ATTEMPTS": "1",
            "AWS_RETRY_MODE": "standard",
        }
        for name, value in said.items():
            patch.setenv(name, value)
        patch.setattr(Store, "at", staticmethod(at_once))
        moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        moto.start()
        try:
            port = moto.get_host_and_port()[1]
            with urlopen(Request(f"http://127.0.0.1:{port}/moto-api/reset", method="POST")):
                pass  # what another server of this process was given is there no more
            yield S3(port)
        finally:
            moto.stop()


class Line:
    """A connection to a port. When ``most`` bytes have gone to it, it is cut, and so is every
    other, until it is repaired.
    """

    def __init__(self, to: int, most: int | None = None) -> None:
        self._to, self.most, self.cuts, self._sent, self._lock = to, most, 0, 0, Lock()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        Thread(target=self._accept, daemon=True).start()

    def cut_after(self, most: int | None) -> None:
        with self._lock:
            self.most, self._sent = most, 0

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                here, _ = self._listening.accept()
                there = socket.create_connection(("127.0.0.1", self._to))
                for one, other, counted in ((here, there, True), (there, here, False)):
                    Thread(target=self._pass, args=(one, other, counted), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket, counted: bool) -> None:
        with suppress(OSError):
            while (data := one.recv(1 << 16)) and self._may(len(data) if counted else 0):
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def _may(self, more: int) -> bool:
        with self._lock:
            self._sent += more
            cut = self.most is not None and self._sent > self.most
            self.cuts += cut
            return not cut
