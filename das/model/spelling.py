"""What a person types for a level, a query or a table, and the name that is meant.

Case, blanks, underscores and hyphens do not matter, nor does the order of the factors of a query.

>>> named("block group", ["County", "Block_Group"], "level")
'Block_Group'
>>> product("CENRACE*hispanic", ["total", "hispanic * cenrace"])
'hispanic * cenrace'"""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from das.errors import InputError
from das.model.schema import DETAILED, Schema

SIGN = " * "  #: between the factors of a query
#: The most names that a message lists.
LISTED = 20


def key(text: str) -> str:
    """The same for all ways to write a name: letters and digits in lower case."""
    return "".join(c for c in text.casefold() if c.isalnum())


def product_key(text: str) -> tuple[str, ...]:
    """The same for all ways to write a query."""
    return tuple(sorted(key(factor) for factor in text.split("*")))


def named(wanted: str, known: Sequence[str], what: str, where: object = None) -> str:
    """The one of the names ``known`` that is meant. ``what`` they are names of, for the message.

    Raises:
        InputError: there is none, or there are several, with those that are near."""
    if wanted in known:
        return wanted
    same = [name for name in known if key(name) == key(wanted)]
    if len(same) == 1:
        return same[0]
    raise InputError(
        f"no {what} {wanted!r}", where=where, remedy=near(wanted, same or known, _plural(what))
    )


def _plural(what: str) -> str:
    """Levels, and kinds of area."""
    noun, of, rest = what.partition(" of ")
    return f"{noun}s{of}{rest}"


def near(wanted: str, known: Sequence[str], what: str) -> str:
    """Advice: the names like ``wanted``, then the known names, of ``what`` (levels, queries)."""
    by_key = {key(name): name for name in known}
    like = [by_key[k] for k in get_close_matches(key(wanted), list(by_key), n=3, cutoff=0.7)]
    more = f" and {len(known) - LISTED} more" if len(known) > LISTED else ""
    listed = (
        f"the {what} are {', '.join(known[:LISTED])}{more}" if known else f"there are no {what}"
    )
    return f"did you mean {' or '.join(like)}? {listed}" if like else listed


def product(wanted: str, known: Sequence[str], where: object = None) -> str:
    """The one of the queries ``known`` that is meant: its factors may stand in any order.

    Raises:
        InputError: there is none, with those that are near."""
    if wanted in known:
        return wanted
    for name in known:
        if product_key(name) == product_key(wanted):
            return name
    raise InputError(f"no query {wanted!r}", where=where, remedy=near(wanted, known, "queries"))


def query(wanted: str, schema: Schema, known: Sequence[str] = (), where: object = None) -> str:
    """Any query of a schema: one of ``known``, or else a product in the order of the schema's
    attributes.

    Raises:
        InputError: a factor that is neither an attribute nor a grouping of the schema."""
    for name in known:
        if product_key(name) == product_key(wanted):
            return name
    grouping = {g.name: g.attribute for g in schema.recodes} | {
        a.name: a.name for a in schema.attributes
    }
    if key(wanted) in ("total", DETAILED):
        return key(wanted)
    factors = [
        named(f.strip(), ["total", DETAILED, *grouping], "attribute", where)
        for f in wanted.split("*")
    ]
    if odd := [f for f in factors if f not in grouping]:
        raise InputError(
            f"{odd[0]!r} is a query by itself", where=where, remedy="leave the other factors out"
        )
    return SIGN.join(sorted(factors, key=lambda f: schema.axis(grouping[f])))
