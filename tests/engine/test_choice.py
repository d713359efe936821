"""Options of engines that do not go together are refused, and so is an address that others can listen to."""

from __future__ import annotations

from pathlib import Path

import pytest

from das.engine.choice import TLS, EngineChoice
from das.errors import UserError


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    for name in TLS:
        (tmp_path / name).touch()
    return tmp_path


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_without_certificates_this_machine_alone(host: str) -> None:
    assert EngineChoice("dask", scheduler=f"tcp://{host}:8786").tls is None


@pytest.mark.parametrize(
    "host",
    ["10.0.0.7", "scheduler", "0.0.0.0", "localhost.example.org", "[fe80::1]", "127.0.0.1.nip.io", "user@10.0.0.1"],
)
def test_another_machine_without_certificates_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="this machine alone"):
        EngineChoice("dask", scheduler=f"tcp://{host}:8786")


def test_certificates_are_all_there(certificates: Path) -> None:
    assert EngineChoice("dask", scheduler="tls://scheduler:8786", tls=certificates).tls == certificates
    (certificates / "key.pem").unlink()
    with pytest.raises(UserError, match=r"there is no key\.pem"):
        EngineChoice("dask", scheduler="tls://scheduler:8786", tls=certificates)


@pytest.mark.parametrize(
    "options, said",
    [({"name": "spark"}, "no engine 'spark'"), ({"workers": 0}, "0 workers"), ({"size": 0}, "0 blocks"), ({"wait": True}, "wait"),
     ({"name": "dask", "scheduler": "tls://h:1", "wait": True}, "wait"), ({"name": "dask"}, "an address is missing"),
     ({"scheduler": "tls://h:1"}, "--scheduler: belongs to --engine dask"), ({"tls": Path("t")}, "--tls: belongs"),
     ({"name": "array", "scheduler": "tls://h:1"}, "belongs"), ({"name": "dask", "scheduler": "tls://h:1"}, "certificates are missing"),
     ({"name": "dask", "scheduler": "tcp://127.0.0.1:1", "tls": Path("t")}, "for an address tls://"),
     *(({"name": "dask", "scheduler": s}, "no address") for s in ("h:1", "tcp://h", "ws://h:1", "tcp://:1", "tcp://h:port", "tls://[h:1"))],
)  # fmt: skip
def test_what_does_not_go_together_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        EngineChoice(**options)  # type: ignore[arg-type]
