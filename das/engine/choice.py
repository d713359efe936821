"""The user's choice of an engine, which performs the tasks of a run."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from das.errors import UserError

LOCAL, DASK, ARRAY = ENGINES = ("local", "dask", "array")
#: As many blocks as a state of middling size has.
SIZE = 1 << 15
#: The files of a folder ``--tls``: whose certificates are believed, one's own, and its key.
TLS = ("ca.pem", "cert.pem", "key.pem")


def cores() -> int:
    """Processors that this process can use."""
    if hasattr(os, "sched_getaffinity"):  # not on every system
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass(frozen=True)
class EngineChoice:
    """An engine and its options. ``workers``: the number of processes on this machine.
    ``scheduler``: the address of Dask's scheduler. ``tls``: a folder with the files ``TLS``.
    ``wait``: a run with ``array`` waits until others have done its tasks. ``size``: the most lowest
    units of a partition of several subtrees. ``automatic``: the user did not choose ``workers``, so
    a small run has one.

    Raises:
        UserError: options that do not go together, or an address that would carry code and paths
            unencrypted."""

    name: str = LOCAL
    workers: int = 1
    scheduler: str | None = None
    tls: Path | None = None
    wait: bool = False
    size: int = SIZE
    automatic: bool = False

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise UserError(
                f"there is no engine {self.name!r}",
                where="--engine",
                remedy=f"choose {', '.join(ENGINES)}",
            )
        if self.workers < 1:
            raise UserError(
                f"{self.workers} workers cannot work", where="--workers", remedy="give one or more"
            )
        if self.size < 1:
            raise UserError(
                f"a partition of {self.size} blocks is none",
                where="--partition",
                remedy="give one or more",
            )
        if self.wait and self.name != ARRAY:
            raise UserError(
                "only a run whose tasks others do can wait for them",
                where="--wait",
                remedy="give it with --engine array",
            )
        if self.name != DASK:
            for option, value in (("--scheduler", self.scheduler), ("--tls", self.tls)):
                if value is not None:
                    raise UserError(
                        "belongs to --engine dask",
                        where=option,
                        remedy="add --engine dask, or leave it out",
                    )
            return
        self._check_address()
        if self.tls is not None:
            _check_certificates(self.tls)

    @property
    def open_to_users(self) -> bool:
        """Whether every user of this machine can run code with access to the truth, because the
        scheduler does not identify its users."""
        return self.name == DASK and self.tls is None

    def _check_address(self) -> None:
        """Check the address of the scheduler. Anyone who can connect to a scheduler can run code as
        its workers, which see the truth. So both sides must show certificates, except where nobody
        else can reach the scheduler."""
        if self.scheduler is None:
            raise UserError(
                "an address is missing",
                where="--scheduler",
                remedy="give --scheduler tls://HOST:8786 --tls DIR",
            )
        try:
            parts = urlsplit(self.scheduler)
            scheme, host, port = parts.scheme, parts.hostname, parts.port
        except ValueError:
            scheme, host, port = "", None, None
        if scheme not in ("tls", "tcp") or not host or port is None:
            raise UserError(
                f"{self.scheduler!r} is no address",
                where="--scheduler",
                remedy="give one such as tls://HOST:8786",
            )
        if scheme == "tls" and self.tls is None:
            raise UserError(
                "certificates are missing",
                where="--tls",
                remedy=f"name a folder with {', '.join(TLS)}",
            )
        if scheme == "tcp" and not is_loopback(host):
            raise UserError(
                "anyone who reads this connection could run code with access to the truth:"
                " tcp:// is only for this machine",
                where=f"--scheduler {self.scheduler}",
                remedy=(
                    "start the scheduler with certificates, and give "
                    "tls://HOST:PORT and --tls DIR: see docs/how-to/engines.md"
                ),
            )
        if scheme == "tcp" and self.tls is not None:
            raise UserError(
                "certificates are for an address tls://",
                where="--tls",
                remedy="leave it out, or use tls://",
            )


def _check_certificates(folder: Path) -> None:
    """Check that all files exist, and that only their owner can read the key. Anyone who has the
    key can run code with access to the truth."""
    for name in TLS:
        if not (folder / name).is_file():
            raise UserError(
                f"there is no {name}",
                where=folder,
                remedy=f"the folder --tls holds {', '.join(TLS)}: see docs/how-to/engines.md",
            )
    key = folder / TLS[-1]
    if key.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise UserError(
            "others can read this key, and who has it can run code where the truth is",
            where=key,
            remedy=f"chmod 600 {key}",
        )


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, judged only by its name or number. No name is looked up,
    because another machine could answer.

    >>> [
    ...     is_loopback(h)
    ...     for h in (
    ...         "localhost",
    ...         "127.8.0.1",
    ...         "::1",
    ...         "10.0.0.1",
    ...         "localhost.evil.org",
    ...         "127.0.0.1.nip.io",
    ...     )
    ... ]
    [True, True, True, False, False, False]"""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
