"""What tells one chunk of noise from every other: the label that its key is made of
(:mod:`das.noise.entropy` has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

#: How labels are made, and how chunks ask for their bits: the answers to each query in turn, of
#: each class of units in turn, unit by unit. Any change of it is another scheme.
SCHEME = "das noise by chunk 1"
#: How noise on request takes its bits: :mod:`das.noise.coordinates` says where those of a
#: coordinate are. Any change of it is another scheme.
BY_COORDINATE = "das noise by coordinate 1"


@dataclass(frozen=True)
class ChunkLabel:
    """Of some units of one level that are measured together.

    ``draw`` counts, from 1, how often the level is drawn: a draw that the ledger counts again
    shares nothing with the first. ``first`` and ``last`` are the codes of the first and the last
    unit. ``plan`` and ``truth`` are digests (SHA-256): of everything that decides what is drawn and
    in which order, and of the true counts. ``sampler`` is the version of what makes numbers of
    bits."""

    universe: str
    level: str
    draw: int
    first: bytes
    last: bytes
    plan: bytes
    sampler: str
    truth: bytes
    scheme: str = SCHEME

    def encoded(self) -> bytes:
        """The label as bytes: different labels have different ones."""
        return encoded(*(getattr(self, f.name) for f in fields(self)))


@dataclass(frozen=True)
class CoordinateLabel:
    """Of one query's noise on request (:mod:`das.noise.coordinates`), of the units of a chunk. None
    of a chunk has its bytes: these are of three values, those of nine."""

    chunk: ChunkLabel
    query: str
    scheme: str = BY_COORDINATE

    def encoded(self) -> bytes:
        """The label as bytes: different labels have different ones."""
        return encoded(self.chunk.encoded(), self.query, self.scheme)


def encoded(*values: bytes | str | int) -> bytes:
    """Values behind their lengths, and behind how many there are: of as many values of the same
    types, no two lists have the same bytes.

    >>> encoded("ab", "c") == encoded("a", "bc")
    False
    """
    raw = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    return len(raw).to_bytes(8, "big") + b"".join(len(x).to_bytes(8, "big") + x for x in raw)
