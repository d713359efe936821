"""Is a release what its privacy statement says? Asked of the published files alone.

:func:`check` holds the noisy measurement files against the ledger, draw by draw (``measured``), and
the ledger's lines against their sums and against ``ledger.jsonl`` (``budget_book``).
:func:`statement` does that, and then computes the whole statement again from ``ledger.jsonl`` and
``spec.toml`` (``whole``): costs, totals, every epsilon, every line on single changes, and the
digests (``sealed``). What a reader must take on trust is what no file can show: that the noise was
drawn as stated, and from the source that is named."""

from das.release.verify.whole import check, drawn, statement, verified

__all__ = ["check", "drawn", "statement", "verified"]
