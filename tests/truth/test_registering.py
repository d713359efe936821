"""Every order of kills, copies, lost keys, other data, resumption and giving up, of a run in a
register: whatever was drawn is counted. The register's own rules decide (the fold of its lines, and
what a run adds); files are replaced by values, so that thousands of orders are tried."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import count
from types import SimpleNamespace
from typing import Any

import pytest

from das.errors import RegisterError
from das.files.run.ledger import Attempt, Entries
from das.model.mechanisms import RHO
from das.register import entering
from das.register.book import Cap, Opening, Register
from das.register.entering import RunRegister
from das.register.file import Head, RegisterLink
from tests.accounting.test_register import entry

STAGE = ("persons", "Region")
#: What a process has done when it is killed: named the draw, written its ledger, drawn.
ENTERED, NAMED, LISTED, DRAWN = range(4)


class Killed(BaseException):
    """The process ends here."""


@dataclass(frozen=True)
class Folder:
    """A run's folder: its key, its data, its ledger (the key of each attempt), and whether the last
    one is measured."""

    key: str | None
    truth: str = "t0"
    begun_with: str = "t0"
    ledger: tuple[str | None, ...] = ()
    measured: bool = False


@dataclass(frozen=True)
class World:
    """All folders, the register, and all that was drawn: key, number and data."""

    register: Register
    folders: tuple[Folder, ...]
    drawn: frozenset[tuple[Any, ...]] = frozenset()
    made: int = 0  #: keys, and draws without one

    @property
    def signature(self) -> tuple[Any, ...]:
        r = self.register
        lines = (len(r.entries), len(r.void), tuple(r.begun.get("run", {}).items()))
        return lines, self.folders, self.drawn


@dataclass
class Model:
    """Plays one operation after another, with the code of a run."""

    keyed: bool
    patch: pytest.MonkeyPatch
    link: RegisterLink = field(
        default_factory=lambda: RegisterLink("r", "x", "run", "toy", "a", "salt")
    )

    def begin(self) -> World:
        opening = Opening("x", Cap(RHO, Fraction(1000)), "a")
        names = count()
        self.patch.setattr(RegisterLink, "read", lambda _: self.link)
        self.patch.setattr(RegisterLink, "entered", lambda *_: None)
        self.patch.setattr(entering, "check_latest", lambda *_: None)
        self.patch.setattr(entering, "uuid4", lambda: SimpleNamespace(hex=f"name{next(names)}"))

        def entered(link: Any, spec: Any, draws: Any, relation: Any, key: Any, often: Any) -> Any:
            cost = Fraction(sum(map(len, draws.values())))
            return replace(
                entry("run", cost), key=key, times={s: n for s, n in often.items() if n > 1}
            )

        self.patch.setattr(entering, "_entry", entered)
        return World(
            Register.opened("init", opening.to_json()), (Folder("k0" if self.keyed else None),)
        )

    def go(self, world: World, which: int, stop: int) -> World:
        """A process goes on in a folder, and may measure again, until it is killed."""
        f, state = world.folders[which], SimpleNamespace(register=world.register, head=Head(1, ""))
        made = world.made
        if self.keyed and f.key is None:
            made, f = made + 1, replace(f, key=f"k{made + 1}")
        changed = f.truth != f.begun_with
        if f.measured and not changed:
            return world
        replayed = bool(f.ledger) and self.keyed and f.ledger[-1] == f.key and not changed
        number = len(f.ledger) + (not replayed)
        appended = count(1)

        def append(kind: str, value: Any) -> Head:
            state.register = state.register.after(kind, value)
            if stop == ENTERED and next(appended) == 1:
                raise Killed
            return Head(1, "")

        @contextmanager
        def locked(_: object) -> Iterator[Any]:
            yield state

        state.append = append
        self.patch.setattr(entering.register, "locked", locked)
        attempts = [Attempt(*STAGE, 1, k, events=[object()]) for k in f.ledger]  # type: ignore[list-item]
        given: Any = {STAGE: SimpleNamespace(events=(1,))}, SimpleNamespace(root="run")
        truth, spec = {"persons": {"f": f.truth}}, SimpleNamespace()
        run = RunRegister(spec, *given, truth, f.key, accept_spent=True)  # type: ignore[arg-type]
        drawn = world.drawn
        try:
            run.name({STAGE: number}, Entries(attempts))
            if stop > NAMED:
                if not replayed:
                    f = replace(f, ledger=(*f.ledger, f.key), measured=False)
                f = replace(f, begun_with=f.truth)
            if stop > LISTED:
                made += not self.keyed
                draw = (f.key, number, f.truth) if self.keyed else (made,)
                drawn, f = drawn | {draw}, replace(f, measured=True)
        except Killed:
            pass
        except RegisterError:
            return world
        folders = (*world.folders[:which], f, *world.folders[which + 1 :])
        return replace(world, register=state.register, folders=folders, drawn=drawn, made=made)

    def void(self, world: World, which: int) -> World:
        """Whatever the folder says: the register alone decides."""
        try:
            return replace(world, register=world.register.after("void", {"line": 2, "why": "-"}))
        except ValueError:
            return world

    def copy(self, world: World, which: int) -> World:
        if len(world.folders) > 1:
            return world
        return replace(world, folders=(*world.folders, world.folders[0]))

    def change(self, world: World, which: int, **what: Any) -> World:
        found = list(world.folders)
        found[which] = replace(found[which], **what)
        return replace(world, folders=tuple(found))

    def next(self, world: World) -> list[World]:
        out = [self.copy(world, 0)]
        for i in range(len(world.folders)):
            out += [self.go(world, i, stop) for stop in (ENTERED, NAMED, LISTED, DRAWN)]
            out.append(self.void(world, i))
            if self.keyed:
                out.append(self.change(world, i, key=None))
            out.append(self.change(world, i, truth=f"t{i + 1}"))
        return out


def wrong(world: World, keyed: bool) -> str:
    """What is spent and not counted."""
    paid = sum((e.spending.rho for e in world.register.standing.values()), Fraction(0))
    if len(world.drawn) > paid:
        return f"{len(world.drawn)} draws, and {paid} counted"
    if keyed and len({d[:2] for d in world.drawn}) < len(world.drawn):
        return "the same noise on two truths"
    return ""


def explored(model: Model, depth: int) -> tuple[int, list[str]]:
    """How many states there are within so many operations, and what is wrong in them."""
    level, seen, faults = [model.begin()], set[Any](), list[str]()
    for _ in range(depth):
        after: Sequence[World] = [w for world in level for w in model.next(world)]
        level = []
        for world in after:
            if world.signature not in seen:
                seen.add(world.signature)
                level.append(world)
                if fault := wrong(world, model.keyed):
                    faults.append(fault)
    return len(seen), faults


@pytest.mark.parametrize(("keyed", "depth", "least"), [(True, 5, 1_000), (False, 4, 300)])
def test_no_order_spends_without_being_counted(
    monkeypatch: pytest.MonkeyPatch, keyed: bool, depth: int, least: int
) -> None:
    states, faults = explored(Model(keyed, monkeypatch), depth)
    assert not faults
    assert states > least


def _void_at_any_time(real: Callable[..., Register]) -> Callable[..., Register]:
    def after(self: Register, kind: str, value: Any) -> Register:
        if kind == "void" and value["line"] in self.entries and not self.void:
            return replace(self, lines=self.lines + 1, void={**self.void, value["line"]: "-"})
        return real(self, kind, value)

    return after


def test_it_finds_what_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same orders, where an entry can be taken back after a draw."""
    monkeypatch.setattr(Register, "after", _void_at_any_time(Register.after))
    _, faults = explored(Model(True, monkeypatch), 3)
    assert "1 draws, and 0 counted" in faults


def test_it_finds_a_copy_that_draws_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same orders, where a run believes its own folder about what was drawn."""
    monkeypatch.setattr(Register, "paid", lambda *_: 1)
    monkeypatch.setattr(RunRegister, "_new", lambda *_: [])
    _, faults = explored(Model(False, monkeypatch), 4)
    assert faults
