"""Pages made from the code: every key of the configuration, every command, the Python functions;
and the schemas of the privacy statement and of
lists of sources.

``python -m docs.reference`` (``make reference``) writes them where they stand, below a line of each
page; a test holds them to the code. The keys are the fields of the models in ``das/spec``; what a
key means stands under its field there."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import click
from pydantic import BaseModel

from das.accounting import sources
from das.accounting.codec import json_schema
from das.cli import main
from das.model.universe import FEATURES
from das.publications.detailed.spec import DetailedFolders
from das.publications.dhc.spec import DhcSpec
from das.publications.sdhc.spec import SdhcSpec
from das.release.publications import publication
from das.spec import RunSpec
from das.spec.parse import PUBLICATIONS
from docs.docstrings import api
from docs.pages import page

#: All below this line of a page is made.
LINE = "<!-- Below this line the page is made from the code, by `make reference`. -->\n"


#: Words of a text that is not repeated.
LONG = 7


def pages() -> dict[Path, str]:
    """The pages and the text that each should have."""
    makers = {
        "configuration.md": configuration,
        "commands.md": commands,
        "api.md": api,
        "publications.md": publications,
    }
    out = {}
    for name, make in makers.items():
        path = page(name)
        head, line, _ = path.read_text(encoding="utf-8").partition(LINE)
        assert line, f"{path} has lost its line"
        made = re.sub(r"\n{3,}", "\n\n", make().strip())
        out[path] = f"{head}{LINE}\n{made}\n"
    for name, schema in (
        ("privacy-statement.schema.json", json_schema()),
        ("sources.schema.json", sources.json_schema()),
    ):
        out[Path(__file__).with_name(name)] = json.dumps(schema, indent=2) + "\n"
    return out


def configuration() -> str:
    """Markdown: a section for each table of the configuration, a row for each of its keys; then
    what the DHC has otherwise. What was said of a key or a table is not repeated.
    """
    out = []
    said: dict[str, str] = {}
    known: dict[type[BaseModel], str] = {}
    for path, model in sorted(tables(RunSpec, ""), key=lambda t: t[0].startswith("universes")):
        known.setdefault(model, path)
        _table(path, model, said)  # their own texts before those of other universes
    for path, model in tables(RunSpec, ""):
        same = known[model] != path
        made = [f"As `[{known[model]}]`.", ""] if same else _table(path, model, said)
        out += [f"## `[{path}]`", "", *made]
    here = page("configuration").parent
    for kind, name in ((DhcSpec, "dhc"), (DetailedFolders, "detailed"), (SdhcSpec, "sdhc")):
        link = Path(os.path.relpath(page(name), here)).as_posix()
        title = kind.title.removeprefix("the ").partition(" (")[0]
        out += [
            f"# {title[:1].upper()}{title[1:]}",
            "",
            f'With `run.publication = "{kind.publication()}"` ([{kind.title}]({link})) these tables'
            " have other keys. `[output]`, where there is one, is the same. There are no others.",
            "",
        ]
        for path, model in tables(kind, ""):
            if model not in known:
                out += [
                    f"## `[{path}]` of {kind.title}",
                    "",
                    *_table(path, model, said, kind.title),
                ]
    return "\n".join(out)


def publications() -> str:
    """Markdown: the features, and by publication which it lacks, and why. A reason is given once."""
    halves = [publication(name) for name, kind in PUBLICATIONS.items() if kind.maker]
    lacking = [feature for feature in FEATURES if any(feature in h.cannot for h in halves)]
    out = ["Every publication has:", ""]
    out += [f"* {words}" for feature, words in FEATURES.items() if feature not in lacking]
    for half in halves:
        features: dict[str, list[str]] = {}
        for feature in lacking:
            if feature in half.cannot:
                features.setdefault(half.cannot[feature], []).append(FEATURES[feature])
        out += ["", f"## {half.title[:1].upper()}{half.title[1:]}", ""]
        if not features:
            out += ["All that, and:", "", *(f"* {FEATURES[feature]}" for feature in lacking)]
            continue
        out += ["All that counts over a tree have, except:", ""]
        for reason, words in features.items():
            out.append(f"* **{'; '.join(words)}.** {reason[:1].upper()}{reason[1:]}.")
    return "\n".join(out)


def _table(path: str, model: type[BaseModel], said: dict[str, str], of: str = "") -> list[str]:
    """What a table is about, and its keys. ``said``: where each text stands already."""
    of = f" of {of}" * bool(of)
    about = _markdown(model.__doc__ or "").removeprefix(f"`[{path}]`").lstrip(":.; ")
    about = _once(about[:1].upper() + about[1:], f"`[{path}]`{of}", said)
    out = [f"A{about[1:]}." if about.startswith("as `") else about, ""]
    texts = notes(model)
    rows = [
        (key := _key(path, k, f), f, _once(texts.get(name, ""), f"`{key}`{of}", said))
        for k, name, f in fields(model)
        if _model(f) is None
    ]
    if rows:
        out += ["| key | value | default | |", "|---|---|---|---|"]
        out += [f"| `{key}` | {_kind(f)} | {_default(f)} | {text} |" for key, f, text in rows]
        out.append("")
    return out


def _once(text: str, key: str, said: dict[str, str]) -> str:
    """A text, or the key or table where it stands already."""
    first = said.setdefault(text, key)
    above = " above" * key.startswith(f"{first} of ")  # a key of this name in another publication
    return text if first == key or len(text.split()) <= LONG else f"as {first}{above}"


def commands() -> str:
    """Markdown: each command with its arguments, what it does, and a row for each option."""
    out = []
    for name, command in walk(main, "das"):
        arguments = [p for p in command.params if isinstance(p, click.Argument)]
        given = "".join(
            f" {p.metavar or str(p.name).upper()}{'...' if p.nargs < 0 else ''}" for p in arguments
        )
        out += [
            f"## `{name}`",
            "",
            "```text",
            f"{name}{given} [OPTIONS]",
            "```",
            "",
            _help(command.help or ""),
            "",
        ]
        rows = [_option(p) for p in command.params if isinstance(p, click.Option)]
        if rows:
            out += ["| option | |", "|---|---|", *rows, ""]
    return "\n".join(out)


def _help(text: str) -> str:
    return "\n\n".join(_markdown(part) for part in inspect.cleandoc(text).split("\n\n"))


def _option(option: click.Option) -> str:
    """A row: the names, what it takes, what it does, and what holds without it."""
    names = ", ".join(f"`{n}`" for n in [*option.opts, *option.secondary_opts])
    takes = "" if option.is_flag else f" `{option.metavar or _takes(option.type)}`"
    extra = ["required"] * option.required + ["repeatable"] * option.multiple
    if isinstance(option.show_default, str):  # in words
        extra.append(f"default: `{option.show_default}`")
    elif option.show_default and option.default is not None:
        default = option.default if isinstance(option.default, tuple | list) else [option.default]
        extra.append(f"default: {', '.join(f'`{d}`' for d in default)}")
    said = " ".join([option.help or "", *([f"({'; '.join(extra)})"] if extra else [])]).strip()
    return f"| {names}{takes.replace('|', chr(92) + '|')} | {said.replace('<', '&lt;')} |"


def _takes(kind: click.ParamType) -> str:
    """What a value of this type looks like."""
    if isinstance(kind, click.Choice):
        return "|".join(map(str, kind.choices))
    return (
        "NUMBER"
        if isinstance(kind, click.types.FloatParamType | click.types.IntParamType)
        else kind.name.upper()
    )


def walk(command: click.Command, name: str) -> Iterator[tuple[str, click.Command]]:
    """Commands that do something, with their full names."""
    if not isinstance(command, click.Group):
        yield name, command
        for part, other in getattr(command, "late", {}).items():
            yield from walk(other, f"{name} {part}")
        return
    context = click.Context(command)
    for part in command.list_commands(context):
        inner = command.get_command(context, part)
        assert inner is not None
        yield from walk(inner, f"{name} {part}")


def tables(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of the configuration below ``model``, with its dotted name."""
    for key, _, field in fields(model):
        if (part := _model(field)) is not None:
            name = f"{path}.{key}".lstrip(".") + (
                ".<name>" if get_origin(field.annotation) is dict else ""
            )
            yield name, part
            yield from tables(part, name)


def fields(model: type[BaseModel]) -> list[tuple[str, str, Any]]:
    """Key, attribute name, and field."""
    return [(f.alias or n, n, f) for n, f in model.model_fields.items()]


def notes(model: type[BaseModel]) -> dict[str, str]:
    """The string under each field of ``model``, by the field's name."""
    out: dict[str, str] = {}
    for part in reversed(
        [c for c in model.__mro__ if issubclass(c, BaseModel) and c is not BaseModel]
    ):
        for node in ast.parse(inspect.getsource(part)).body:
            assert isinstance(node, ast.ClassDef)
            for field, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(field, ast.AnnAssign) and isinstance(after, ast.Expr):
                    out[ast.unparse(field.target)] = _markdown(ast.literal_eval(after.value))
    return out


def _markdown(text: str) -> str:
    return inspect.cleandoc(text).replace("\n", " ").replace("``", "`")


def _model(field: Any) -> type[BaseModel] | None:
    """The model of a field that is a table, or a table of tables."""
    parts = [field.annotation, *get_args(field.annotation)]
    return next((p for p in parts if isinstance(p, type) and issubclass(p, BaseModel)), None)


def _key(path: str, key: str, field: Any) -> str:
    """``queries`` of one universe, or by universe, which is one table deeper."""
    by = ".<universe>" if str(field.annotation).count("dict[") > 2 else ""
    queries = f"{by}.<Level>.<query>"
    below = {"levels": ".<Level>", "queries": queries} if path.endswith("budget") else {}
    by_name = {
        "attributes": ".<attribute>",
        "define": ".<Level>",
        "passes": ".<Level>",
        "groups": ".<group>",
    }
    return f"{path}.{key}{(below | by_name).get(key, '')}"


def _kind(field: Any) -> str:
    if Fraction in get_args(field.annotation) or field.annotation is Fraction:
        return "exact number"
    return _type(field.annotation)


def _type(kind: Any) -> str:
    """An annotation in words."""
    origin, args = get_origin(kind), [a for a in get_args(kind) if a not in (NoneType, Ellipsis)]
    if origin is Literal:
        return ", ".join(f'`"{a}"`' for a in args)
    if origin is Annotated:
        return _type(args[0])
    if origin in (Union, UnionType):
        return " or ".join(map(_type, args))
    if origin is tuple:
        return (
            "list of lists"
            if get_origin(args[0]) is tuple
            else "list of tables"
            if get_origin(args[0]) is dict
            else "list"
        )
    if origin is dict:
        return _type(args[1]) if args[1] is not Any else "table"
    return {str: "text", int: "integer", bool: "`true`, `false`", Fraction: "exact number"}.get(
        kind, "exact number"
    )


def _default(field: Any) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if value in (None, (), {}):
        return "none"
    return f"`{value if isinstance(value, Fraction) else _toml(value)}`"


def _toml(value: Any) -> str:
    """A value as a configuration has it."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{k} = {_toml(v)}" for k, v in value.items()) + " }"
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, int) else f'"{value}"'


if __name__ == "__main__":
    for page, text in pages().items():
        page.write_text(text, encoding="utf-8")
