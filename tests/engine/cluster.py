"""A cluster of Dask on this machine whose parts show each other certificates, and whose workers can be killed."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import distributed
from distributed.comm import tcp

from das.engine.dask import RESOURCE


@contextmanager
def cluster(tls: Path, plain: int = 1, marked: int = 1) -> Iterator[Any]:
    """``plain`` worker processes, and ``marked`` ones that may see the truth; ``tls`` has the certificate that all share."""
    files = {f"tls_{who}_{what}": str(tls / f"{what}.pem")
             for who in ("scheduler", "worker", "client") for what in ("cert", "key")}  # fmt: skip
    security = distributed.Security(tls_ca_file=str(tls / "ca.pem"), require_encryption=True, **files)
    shared = {"security": security, "protocol": "tls://", "host": "127.0.0.1"}
    each = shared | {"nthreads": 1, "memory_limit": 0, "local_directory": str(tls)}
    workers = {f"plain{i}": {"cls": distributed.Nanny, "options": each} for i in range(plain)}
    seeing = each | {"resources": {RESOURCE: 1}}
    workers |= {f"marked{i}": {"cls": distributed.Nanny, "options": seeing} for i in range(marked)}
    scheduler = {"cls": distributed.Scheduler, "options": shared | {"dashboard_address": ":0"}}
    # such a cluster gives up a worker that is being started anew some seconds after another was lost
    with (
        dask.config.set({"distributed.deploy.lost-worker-timeout": "1 hour", "distributed.comm.compression": None}),
        distributed.SpecCluster(workers=workers, scheduler=scheduler, security=security, silence_logs=50) as made,
    ):
        yield made


@contextmanager
def recorded() -> Iterator[list[bytes]]:
    """All that the client and the scheduler, which are of this process, send and receive: so all that there is, for workers have
    nothing to tell each other."""
    frames: list[bytes] = []
    sent, received = tcp.to_frames, tcp.from_frames

    async def to_frames(*args: Any, **options: Any) -> Any:
        out = await sent(*args, **options)
        frames.extend(bytes(f) for f in out)
        return out

    async def from_frames(given: Any, *args: Any, **options: Any) -> Any:
        given = list(given)
        frames.extend(bytes(f) for f in given)
        return await received(given, *args, **options)

    with patch.object(tcp, "to_frames", to_frames), patch.object(tcp, "from_frames", from_frames):
        yield frames


@contextmanager
def killing(cluster: Any, often: int) -> Iterator[list[int]]:
    """Meanwhile workers that have begun are killed, one after the other."""
    ended, killed, order = threading.Event(), list[int](), random.Random(4)

    def kill() -> None:
        while len(killed) < often and not ended.wait(order.uniform(0.3, 0.9)):
            begun = [
                n
                for n in cluster.workers.values()
                if n.status == n.status.running and n.process.status == n.status.running
            ]
            if begun and (pid := order.choice(begun).process.pid):
                os.kill(pid, signal.SIGKILL)
                killed.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        yield killed
    finally:
        ended.set()
        killer.join()
