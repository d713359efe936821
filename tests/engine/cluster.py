"""A cluster of Dask on this machine whose parts show each other certificates, and whose workers can
be killed.
"""

from __future__ import annotations

import logging
import os
import random
import re
import signal
import struct
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import dask
import distributed
import numpy as np
from distributed.comm import tcp
from numpy.typing import NDArray

from das.engine.choice import EngineChoice
from das.engine.dask import RESOURCE, DaskEngine
from das.files.run.stage_tasks import opened


@contextmanager
def cluster(tls: Path, plain: int = 1, marked: int = 1) -> Iterator[Any]:
    """``plain`` worker processes, and ``marked`` ones that may see the truth; ``tls`` has the
    certificate that all share.
    """
    files = {
        f"tls_{who}_{what}": str(tls / f"{what}.pem")
        for who in ("scheduler", "worker", "client")
        for what in ("cert", "key")
    }
    security = distributed.Security(
        tls_ca_file=str(tls / "ca.pem"), require_encryption=True, **files
    )
    shared = {"security": security, "protocol": "tls://", "host": "127.0.0.1"}
    each = shared | {"nthreads": 1, "memory_limit": 0, "local_directory": str(tls)}
    workers = {f"plain{i}": {"cls": distributed.Nanny, "options": each} for i in range(plain)}
    seeing = each | {"resources": {RESOURCE: 1}}
    workers |= {f"marked{i}": {"cls": distributed.Nanny, "options": seeing} for i in range(marked)}
    scheduler = {"cls": distributed.Scheduler, "options": shared | {"dashboard_address": ":0"}}
    # such a cluster gives up a worker that is being started anew some seconds after another was
    # lost
    with (
        dask.config.set(
            {
                "distributed.deploy.lost-worker-timeout": "1 hour",
                "distributed.comm.compression": None,
                "distributed.worker.multiprocessing-method": "forkserver",
            }
        ),
        distributed.SpecCluster(
            workers=workers, scheduler=scheduler, security=security, silence_logs=50
        ) as made,
    ):
        yield made


@contextmanager
def recorded() -> Iterator[list[bytes]]:
    """All that the client and the scheduler, which are of this process, send and receive: so all
    that there is, for workers have nothing to tell each other."""
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


def places(
    cluster: Any, choice: EngineChoice, frames: Sequence[bytes], printed: Any
) -> dict[str, bytes]:
    """All that was told where it need not be: on the wire, in logs, those that went to the terminal
    too, and in folders of workers.
    """
    with _client(choice) as client:
        client.wait_for_workers(len(cluster.workers), timeout=30)
        logs = [
            str(client.get_worker_logs()).encode(),
            str(client.get_scheduler_logs()).encode(),
            *printed.readouterr(),
        ]
        folders = {Path(f) for f in client.run(_folder, None).values()}
    files = (p for f in folders for p in sorted(f.parent.rglob("*")) if p.is_file())
    return {
        "traffic": b"\n".join(frames),
        "logs": b"\n".join(logs),
        "folders": b"\n".join(p.read_bytes() for p in files),
    }


def betray(choice: EngineChoice, counts: NDArray[np.int64]) -> None:
    """Tell counts of the truth on purpose: send them, log the largest, leave them in the folders of
    workers.
    """
    with _client(choice) as client:
        client.submit(np.sort, counts).result()
        client.run(_folder, counts)


@contextmanager
def _client(choice: EngineChoice) -> Iterator[Any]:
    with opened(choice) as engine:
        assert isinstance(engine, DaskEngine)
        engine._stained = False  # nothing is started anew, with its log and its folder
        yield engine._client


def _folder(counts: NDArray[np.int64] | None, dask_worker: Any) -> str:
    if counts is not None:
        logging.getLogger("distributed.worker").warning("the largest count is %s", counts.max())
        Path(dask_worker.local_directory, "spilled").write_bytes(counts.tobytes())
    return str(dask_worker.local_directory)


def tells(told: bytes, count: int) -> bool:
    """Whether a count is in it, as any program would write it: a number of 4 or 8 bytes in either
    order, or a text.
    """
    texts = b"|".join(re.escape(t.encode()) for t in (f"{count}", f"{count:,}"))
    numbers = [count.to_bytes(n, order) for n in (4, 8) for order in ("little", "big")]  # type: ignore[arg-type]
    numbers += [struct.pack(form, count) for form in ("<d", ">d", "<f", ">f")]
    return (
        any(n in told for n in numbers)
        or re.search(rb"(?<![\w.])(%s)(?!\w)" % texts, told) is not None
    )


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
