"""Options of engines that do not go together are refused, and so is an address that others can
listen to.
"""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from das.cli.kit.options import engine_options
from das.engine.choice import TLS, EngineChoice
from das.errors import UserError


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    for name in TLS:
        (tmp_path / name).touch(0o600)
    return tmp_path


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "localhost", "[::1]"])
def test_without_certificates_this_machine_alone(host: str) -> None:
    assert EngineChoice("dask", scheduler=f"tcp://{host}:8786").tls is None


@pytest.mark.parametrize(
    "host",
    [
        "10.0.0.7",
        "scheduler",
        "0.0.0.0",
        "localhost.example.org",
        "[fe80::1]",
        "127.0.0.1.nip.io",
        "user@10.0.0.1",
    ],
)
def test_another_machine_without_certificates_is_refused(host: str) -> None:
    with pytest.raises(UserError, match="only for this machine"):
        EngineChoice("dask", scheduler=f"tcp://{host}:8786")


def test_certificates_are_all_there(certificates: Path) -> None:
    assert (
        EngineChoice("dask", scheduler="tls://scheduler:8786", tls=certificates).tls == certificates
    )
    (certificates / "key.pem").unlink()
    with pytest.raises(UserError, match=r"there is no key\.pem"):
        EngineChoice("dask", scheduler="tls://scheduler:8786", tls=certificates)


@pytest.mark.parametrize(
    "options, said",
    [
        ({"name": "spark"}, "no engine 'spark'"),
        ({"workers": 0}, "0 workers"),
        ({"size": 0}, "0 blocks"),
        ({"wait": True}, "wait"),
        ({"name": "dask", "scheduler": "tls://h:1", "wait": True}, "wait"),
        ({"name": "dask"}, "an address is missing"),
        ({"scheduler": "tls://h:1"}, "--scheduler: belongs to --engine dask"),
        ({"tls": Path("t")}, "--tls: belongs"),
        ({"name": "array", "scheduler": "tls://h:1"}, "belongs"),
        ({"name": "dask", "scheduler": "tls://h:1"}, "certificates are missing"),
        (
            {"name": "dask", "scheduler": "tcp://127.0.0.1:1", "tls": Path("t")},
            "for an address tls://",
        ),
        *(
            ({"name": "dask", "scheduler": s}, "no address")
            for s in ("h:1", "tcp://h", "ws://h:1", "tcp://:1", "tcp://h:port", "tls://[h:1")
        ),
    ],
)
def test_what_does_not_go_together_is_refused(options: dict[str, object], said: str) -> None:
    with pytest.raises(UserError, match=said):
        EngineChoice(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700 | 0o010])
def test_a_key_that_others_can_read_is_refused(certificates: Path, mode: int) -> None:
    (certificates / "key.pem").chmod(mode)
    with pytest.raises(UserError, match=r"key\.pem: others can read this key"):
        EngineChoice("dask", scheduler="tls://h:1", tls=certificates)
    (certificates / "key.pem").chmod(0o400)
    assert not EngineChoice("dask", scheduler="tls://h:1", tls=certificates).open_to_users


def test_whom_a_scheduler_without_certificates_obeys_is_said() -> None:
    @click.command()
    @engine_options
    @click.option("--workers", type=int, default=1)
    def command(choice: EngineChoice) -> None:
        click.echo(choice.name)

    said = CliRunner().invoke(command, ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:1"])
    assert "every user of this machine" in said.stderr
    assert not CliRunner().invoke(command, []).stderr
