"""TOML text and overrides to the specification of a publication."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_origin

import tomli_w
from pydantic import BaseModel, ValidationError

from das.errors import SpecError
from das.plugins import Plugins
from das.spec.published import PublishedSpec
from das.spec.run import RunSpec
from das.spec.specification import Specification
from das.spec.tree import check_numbers, override, renamed, tree_of

#: The specification of a release of counts over a tree: of a run, or of measurements that another
#: publisher made.
Spec = RunSpec | PublishedSpec
SpecKind = TypeVar("SpecKind", bound=Specification)
PartKind = TypeVar("PartKind", bound=BaseModel)


#: By ``run.publication``, the specification that has it; without that key, the first.
PUBLICATIONS: Plugins[type[Specification]] = Plugins(
    "das.publications",
    "publication",
    Specification,
    ("counts", "dhc", "detailed-dhc", "sdhc", "published", "published-dhc"),
    classes=True,
)


def parse(
    text: str,
    *,
    where: str,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> RunSpec:
    """The checked specification of counts over a tree, as :func:`load`. Raises
    :class:`SpecError` for that of another publication."""
    return of_kind(
        RunSpec, load(text, where=where, overrides=overrides, folder=folder, note=note), where
    )


def of_release(text: str, *, where: str, overrides: Sequence[str] = ()) -> Spec:
    """That of a release of counts over a tree: of a run, or of measurements that another publisher
    made."""
    spec = load(text, where=where, overrides=overrides)
    return spec if isinstance(spec, PublishedSpec) else of_kind(RunSpec, spec, where)


def of_kind(kind: type[SpecKind], spec: Specification, where: str) -> SpecKind:
    """The specification, where it is of this ``kind``. Raises :class:`SpecError`."""
    if isinstance(spec, kind):
        return spec
    raise SpecError(
        f"this is a specification of {spec.title}, and one of {kind.title} is wanted",
        where=where,
        remedy=spec.remedy,
    )


def load(
    text: str,
    *,
    where: str,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> Specification:
    """The checked specification of any publication (``run.publication``) from TOML ``text``.
    ``overrides`` are ``dotted.key=value``; ``folder`` is what the ``data.path`` of the text is
    relative to, where that is not the folder of the command. ``note`` is called with what was read
    otherwise than it is written.

    Raises :class:`SpecError`, once, with every fault that was found and the key of each."""
    return of_tree(tree_of(text, where), where=where, overrides=overrides, folder=folder, note=note)


def of_tree(
    tree: dict[str, Any],
    *,
    where: str,
    overrides: Sequence[str] = (),
    folder: Path | None = None,
    note: Callable[[str], None] | None = None,
) -> Specification:
    """The specification from parsed tables and keys. It changes ``tree``."""
    data = tree.get("data")
    if folder is not None and isinstance(data, dict) and isinstance(data.get("path"), list | str):
        given = [data["path"]] if isinstance(data["path"], str) else data["path"]
        data["path"] = [str(folder / str(p)) for p in given]
    for said in renamed(tree, where):
        if note is not None:
            note(said)
    for item in overrides:
        override(tree, item)
    check_numbers(tree, where)
    kind = PUBLICATIONS[publication_of(tree, where)]
    changed = {item.partition("=")[0].strip() for item in overrides}
    return _checked(kind, kind.amended(tree, changed), where)


def publication_of(tree: Mapping[str, Any], where: str) -> str:
    """Which publication a configuration is of. Raises :class:`SpecError` where there is none such."""
    run = tree.get("run")
    name = run.get("publication") if isinstance(run, dict) else None
    if name is None:
        return PUBLICATIONS.first[0]
    if not isinstance(name, str) or name not in PUBLICATIONS:
        near = get_close_matches(str(name), PUBLICATIONS, n=1)
        raise SpecError(
            f"run.publication: there is no publication {name!r}",
            where=where,
            remedy=f"did you mean {near[0]!r}?" if near else f"there are {', '.join(PUBLICATIONS)}",
        )
    return name


def _checked(kind: type[SpecKind], tree: dict[str, Any], where: str) -> SpecKind:
    found = validated(kind, tree, where)
    try:
        return found.checked()
    except SpecError as error:
        raise SpecError(str(error), where=where) from None


def validated(
    kind: type[PartKind], tree: dict[str, Any], where: str, context: dict[str, Any] | None = None
) -> PartKind:
    """The value of parsed tables and keys. Raises :class:`SpecError`, once, with every fault."""
    try:
        return kind.model_validate(tree, context=context)
    except ValidationError as error:
        faults = "\n".join(f"  {_fault(e, kind)}" for e in error.errors())
        raise SpecError(
            f"{error.error_count()} fault(s) in the configuration:\n{faults}", where=where
        ) from None
    except SpecError as error:
        raise SpecError(str(error), where=where) from None


def _fault(e: Any, kind: type[BaseModel]) -> str:
    path = ".".join(str(p) for p in e["loc"])
    if e["type"] == "extra_forbidden":
        near = get_close_matches(str(e["loc"][-1]), _known(e["loc"][:-1], kind), n=1)
        hint = (
            f"; did you mean {near[0]!r}?"
            if near
            else f"; known keys: {', '.join(_known(e['loc'][:-1], kind))}"
        )
        return f"{path}: unknown key{hint}"
    if e["type"] == "missing":
        return f"{path}: missing"
    what = str(e["msg"]).removeprefix("Value error, ")
    return f"{path}: {what}" if path else what


def _known(path: Sequence[Any], kind: type[BaseModel]) -> list[str]:
    """The keys that a table of the specification may have."""
    model: Any = kind
    named = False  # the next part of the path is a name that the user chose
    for p in path:
        if named:
            named = False
            continue
        field = next((f for n, f in model.model_fields.items() if (f.alias or n) == p), None)
        args = (
            [] if field is None else [field.annotation, *getattr(field.annotation, "__args__", ())]
        )
        model = next((a for a in args if isinstance(a, type) and issubclass(a, BaseModel)), None)
        if model is None:
            return []
        named = field is not None and get_origin(field.annotation) is dict
    return [f.alias or n for n, f in model.model_fields.items()]


def with_tables(
    text: str, where: str, overrides: Sequence[str], folder: Path | None, tables: str
) -> str:
    """A whole configuration: that of :func:`load`, with the budget of the ``tables`` of a plan.
    Raises :class:`SpecError` if they do not fit."""
    tree = tree_of(text, where)
    of_tree(tree, where=where, overrides=overrides, folder=folder)
    _put(tree, tree_of(tables, where))
    whole = tomli_w.dumps(tree)
    load(whole, where=where)
    return whole


def _put(tree: dict[str, Any], new: Mapping[str, Any]) -> None:
    """Put the tables of a plan into a configuration: a total replaces each other way to say it."""
    if {"levels", "queries"} & new.keys():
        for key in ("rho", "epsilon", "calibration"):
            tree.pop(key, None)
    for key, value in new.items():
        if isinstance(value, dict) and key not in {"levels", "queries"}:
            _put(tree.setdefault(key, {}), value)
        else:
            tree[key] = value
