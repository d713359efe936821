"""Writes a privacy statement as text, reads that text (only here), and makes its published JSON
Schema."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from das.accounting.document import (
    ALTERED,
    FORMAT,
    FORMS,
    INTERVALS_LIST,
    NAME,
    Account,
    Document,
    ForeignStatement,
    GaussianStatement,
    Section,
    Stated,
)
from das.accounting.invariant_neighbours import INVARIANT_NEIGHBOURS
from das.errors import ReleaseError

#: The fields in the order of the text.
ORDER = (
    "format",
    "private",
    "warning",
    "entropy",
    "mechanism",
    "neighbours",
    "rho",
    "epsilon",
    "neighbours_of",
    "guarantee",
    INVARIANT_NEIGHBOURS,
    "spending",
    "changes",
    "target",
    "paths",
    "curve",
    "outside_the_guarantee",
    "assigned",
    "what_this_means",
    "measured",
    "ledger",
    "spent_by_interrupted_attempts",
    "digests",
    "notes",
    "software",
)


def plain(value: Section) -> dict[str, Any]:
    """An account, a statement or a part of one, as a JSON value."""
    out = value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return (
        {k: out[k] for k in sorted(out, key=ORDER.index)}
        if isinstance(value, Account | Stated)
        else out
    )


def text(statement: Stated) -> str:
    """The whole file ``privacy.json``."""
    return json.dumps(plain(statement), indent=2, ensure_ascii=False) + "\n"


def own_digest(statement: Stated) -> str:
    """SHA-256 of a statement without this digest, with sorted keys and no spaces."""
    value = plain(statement)
    value["digests"].pop(NAME, None)
    said = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(said.encode()).hexdigest()


def identity(statement: Stated) -> str:
    """A digest that identifies a release, before and after intervals are added to it. It covers the
    statement except the digest of the intervals."""
    return own_digest(
        statement.sealed(
            {k: v for k, v in statement.digests.items() if k != INTERVALS_LIST}, statement.software
        )
    )


def document_from_json(value: Mapping[str, Any], where: object = None) -> Document:
    """The statement that a JSON object represents. Raises :class:`ReleaseError` with the place of
    its first fault."""
    said = value.get("format")
    if said is None:
        raise ReleaseError(
            "this is no privacy statement (format: Field required)",
            remedy=(
                f"{ALTERED}; or an early version of das wrote it, before statements had formats:"
                " read it with that version"
            ),
            where=where,
        )
    if isinstance(said, str) and said != FORMAT:
        raise ReleaseError(
            f"this privacy statement has the format {said!r}, and this version of das reads"
            f" {FORMAT!r}",
            remedy="read it with the version of das that it names under 'software'",
            where=where,
        )
    kind: type[Document] = ForeignStatement
    if "measured" not in value:
        kind = next(
            (f.statement for m, f in FORMS.items() if m.name == value.get("mechanism")),
            GaussianStatement,
        )
    try:
        return kind.model_validate(value, by_alias=True, by_name=False)
    except ValidationError as error:
        raise ReleaseError(
            f"this is no privacy statement ({fault(error)})", where=where, remedy=ALTERED
        ) from None


def fault(error: ValidationError) -> str:
    """The first fault, with its place."""
    first = error.errors(include_url=False, include_context=False)[0]
    at = ".".join(str(x) for x in first["loc"])
    whole = first["type"] == "missing" or isinstance(first["input"], dict | list)
    says = first["msg"].removeprefix("Value error, ") + (
        "" if whole else f", not {first['input']!r}"
    )
    return f"{at}: {says}" if at else says


class _Published(GenerateJsonSchema):
    """A field that can be left out is never null."""

    def nullable_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: Any) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def field_title_should_be_set(self, schema: Any) -> bool:
        del schema
        return False


def json_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of ``privacy.json``. It checks names and types;
    :mod:`das.release.verify` checks the sums."""
    made = published_schema(Document, FORMAT, "Privacy statement of a release of das")
    for part in made["$defs"].values():
        if "format" in part["properties"]:
            part["properties"] = {
                k: part["properties"][k] for k in sorted(part["properties"], key=ORDER.index)
            }
    return made


def published_schema(kind: Any, name: str, title: str) -> dict[str, Any]:
    """JSON Schema of a document, whose format has a ``name``."""
    every: TypeAdapter[Any] = TypeAdapter(kind)
    head = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:{name.replace('/', ':')}",
        "title": title,
    }
    return head | {
        k: v for k, v in every.json_schema(schema_generator=_Published).items() if k != "title"
    }
