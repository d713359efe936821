"""What the specifications of all publications share."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Protocol, Self

import tomli_w

from das.model.not_private import WARNING
from das.model.plan import Plan
from das.model.post_processing import PostProcessing
from das.model.schema import Schema
from das.spec.parts import Part, Run

#: What a specification says of one machine alone.
OF_A_MACHINE: dict[str, Any] = {"data": {"path"}, "geography": {"places"}}


class PlannedRecords(Protocol):
    """Records of one kind, and what is measured of them."""

    @property
    def name(self) -> str: ...

    @property
    def plan(self) -> Plan: ...


class Specification(Part):
    """What a configuration says, checked. Frozen. It is the value of an entry point in
    ``das.publications``, by its ``run.publication``.

    ``title``: what is published, in words; ``remedy``: who takes such a configuration, and its
    releases. ``public`` names the half that sees only releases, a
    :class:`das.release.publications.PublicHalf`, as ``"module:Class"``. ``maker`` names the half
    that makes them from records, a :class:`das.runs.protocol.Maker`, if there is one; ``tasks`` what
    its own stages do with a task, a mapping of :data:`das.engine.tasks.Work`, if it has some."""

    title: ClassVar[str]
    remedy: ClassVar[str]
    public: ClassVar[str]
    maker: ClassVar[str | None] = None
    tasks: ClassVar[str | None] = None
    of_a_machine: ClassVar[Any] = OF_A_MACHINE
    #: The key that names an earlier release, where it rests on one.
    rests_on: ClassVar[str] = ""

    run: Run

    @classmethod
    def publication(cls) -> str:
        """The value of ``run.publication``."""
        run = cls.model_fields["run"].annotation
        assert run is not None
        return str(run.model_fields["publication"].default)

    @classmethod
    def amended(cls, tree: dict[str, Any], changed: set[str]) -> dict[str, Any]:
        """The tree of a configuration as it should be read. ``changed`` has the dotted keys that
        were overridden."""
        return tree

    def checked(self) -> Self:
        """The same, after everything that parts must agree on was built. Raises
        :class:`SpecError`."""
        return self

    def lacks_input(self, paths: Sequence[Path]) -> bool:
        """Whether no records are named, here or by ``paths``, and some can be simulated."""
        return False

    @property
    def listed_schemas(self) -> Mapping[str, Schema]:
        """By universe the schemas whose rules `das check` lists."""
        return {}

    @property
    def condition(self) -> str:
        """What the office must know to be true before it publishes, as a clause; empty where there
        is nothing."""
        return ""

    @property
    def further(self) -> tuple[str, ...]:
        """What a run writes next to its release, in sentences."""
        return ()

    @property
    def base(self) -> str:
        """Path of the earlier release that it rests on; empty where it rests on none."""
        return ""

    def notes_on(self, base: PostProcessing) -> tuple[str, ...]:
        """What it means for this how the earlier release was estimated, in sentences."""
        return ()

    @property
    def private(self) -> object:
        """Whether the noise is private: true, false or unknown."""
        return self.run.private

    def tree(self) -> dict[str, Any]:
        """The resolved specification as a rerun needs it, without what is of one machine."""
        return self.model_dump(
            mode="json", by_alias=True, exclude=self.of_a_machine, exclude_none=True
        )

    def dump(self) -> str:
        """The same as TOML. That of noise that is not private begins with a comment that says
        so."""
        return ("" if self.private else f"# {WARNING}\n") + tomli_w.dumps(self.tree())

    @property
    def digest(self) -> str:
        """SHA-256 of the resolved specification."""
        return hashlib.sha256(self.dump().encode()).hexdigest()
