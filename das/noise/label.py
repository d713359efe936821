"""Labels of chunks of noise. No two chunks have the same label, and a chunk's key is made from it
(:mod:`das.noise.entropy` has the proof).
"""

from __future__ import annotations

from dataclasses import dataclass, fields

#: How labels are made, and in which order a chunk takes its bits: query by query, within a query
#: class by class of units, within a class unit by unit. Any change makes another scheme.
SCHEME = "das noise by chunk 1"
#: How noise on demand takes its bits: :mod:`das.noise.coordinates` says where the bits of a
#: coordinate are. Any change makes another scheme.
BY_COORDINATE = "das noise by coordinate 1"


@dataclass(frozen=True)
class ChunkLabel:
    """The label of some units of one level that are measured together.

    ``draw`` counts, from 1, how often the level is drawn: a draw that the ledger counts again
    shares nothing with the first. ``first`` and ``last`` are the codes of the first and the last
    unit. ``plan`` and ``truth`` are SHA-256 digests. ``plan`` covers everything that decides what
    is drawn and in which order; ``truth`` covers the true counts. ``sampler`` is the version of the
    code that turns bits into numbers."""

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
    """The label of one query's noise on demand (:mod:`das.noise.coordinates`), for the units of a
    chunk. No chunk label has the same bytes: this one encodes three values, a chunk's nine."""

    chunk: ChunkLabel
    query: str
    scheme: str = BY_COORDINATE

    def encoded(self) -> bytes:
        """The label as bytes: different labels have different ones."""
        return encoded(self.chunk.encoded(), self.query, self.scheme)


def encoded(*values: bytes | str | int) -> bytes:
    """The number of values, then each value after its length. Two different lists with the same
    types never have the same bytes.

    >>> encoded("ab", "c") == encoded("a", "bc")
    False
    """
    raw = [v if isinstance(v, bytes) else str(v).encode() for v in values]
    return len(raw).to_bytes(8, "big") + b"".join(len(x).to_bytes(8, "big") + x for x in raw)
