"""Why a count is published worse than it was measured, and what to do: a line for people each."""

from __future__ import annotations

from das.model.labels import level_inside

#: Of places on the production tree that hold one type of facility: who is in them is settled above.
REMEDY_FACILITIES = 'set estimation.method = "full-information"'
REMEDY = 'hold it in estimation.passes, or set estimation.method = "full-information"'


def cause(level: str, above: str | None) -> str:
    """The cause in words.

    ``above`` is given where a unit of ``level`` in the measured tree has all facilities of one type
    in the unit above it. It is the level above, which is estimated first."""
    if above is not None:
        return (
            f"{level_inside(level)}s of one type of facility were settled at the"
            f" {level_inside(above)}, from noisier counts"
        )
    return "counts must agree with all levels and be 0 or more; over few places, chance adds to it"


def remedy(above: str | None) -> str:
    """What avoids it; ``above`` is as in :func:`cause`."""
    return REMEDY if above is None else REMEDY_FACILITIES
