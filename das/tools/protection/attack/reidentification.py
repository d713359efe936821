r"""Re-identification: what an attacker who knows some attributes of everybody learns of the others
from a guess at their records.

He knows the unit and the ``known`` attributes of each person, such as sex and age. He looks the
person up among the guessed records, and reads the ``sensitive`` attributes there, such as origin
and race.

*A pair* is a unit and a combination of known attributes. It has :math:`n` persons, :math:`t_k` of
them with sensitive attributes :math:`k`, and :math:`m` guessed records, :math:`r_k` with :math:`k`.
Persons and records are matched one to one. Which record a person gets would depend on the order of
files, so these are expectations over all orders: :math:`\min(n, m)` persons are *putative*
re-identifications, and :math:`\sum_k t_k r_k / \max(n, m)` are *confirmed*. Of the :math:`t_k`
persons with :math:`k` it is :math:`t_k \min(n, m)/n` and :math:`t_k r_k / \max(n, m)`. *Precision* is
confirmed over putative. *Agreement* is :math:`\sum \min(t_k, r_k)` over persons.

*Groups.* A person is *modal* who has the most frequent sensitive attributes of the unit; where that
is a tie, or the unit has one person, of the units with the same parent; where that is a tie, of all.
A person is *unique* who is alone in the pair.

*Baselines*, over the same putative persons, from the true sensitive attributes of the unit: *modal*
guesses the most frequent one; *proportional* draws one from the unit's shares :math:`c_k / N`,
which contain the person; *leave-one-out* from the shares of all others, :math:`(c_k - 1)/(N - 1)`,
and so is what an attacker can do who learns nothing from the person's own record.

Source: U.S. Census Bureau, A Simulated Reconstruction and Reidentification Attack on the 2010 U.S.
Census: Full Technical Report (2025), section 5; the expectations and leave-one-out are ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from das.errors import InputError
from das.model.frozen import Frozen
from das.model.histogram import Histogram
from das.model.schema import Schema
from das.model.spine import Spine

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Floats = NDArray[np.float64]

KNOWN, SENSITIVE = ("sex", "age"), ("hispanic", "cenrace")
GROUPS = ("all", "nonmodal", "nonmodal unique")
#: First populations of the classes of units.
_CLASSES = (1, 10, 50, 100, 250, 500, 1000)
SIZES = ("1-9", "10-49", "50-99", "100-249", "250-499", "500-999", "1000+")


@dataclass(frozen=True)
class ReidentificationScore:
    """Of the persons of a ``group`` in units of a ``size`` (of :data:`SIZES`, or all), perhaps only
    ``among`` some units: how many, how many ``agree`` with a guessed record, the putative and
    confirmed ones, and those that each baseline would confirm."""

    group: str
    size: str
    among: bool
    persons: int
    agree: float
    putative: float
    confirmed: float
    modal: float
    proportional: float
    leave_one_out: float

    @property
    def agreement(self) -> float:
        """Part of the persons who agree with a guessed record."""
        return _part(self.agree, self.persons)

    @property
    def putative_rate(self) -> float:
        """Part of the persons who are found."""
        return _part(self.putative, self.persons)

    @property
    def confirmed_rate(self) -> float:
        """Part of the persons who are found with the true attributes."""
        return _part(self.confirmed, self.persons)

    @property
    def precision(self) -> float:
        """Part of those found whose attributes are the true ones."""
        return _part(self.confirmed, self.putative)

    def baseline(self, name: str) -> float:
        """The precision of ``modal``, ``proportional`` or ``leave_one_out``."""
        return _part(getattr(self, name), self.putative)


def _part(some: float, whole: float) -> float:
    return some / whole if whole > 0 else float("nan")


@dataclass(frozen=True)
class ReidentificationScores(Frozen):
    """The scores of every group, size class and, where asked, of some units alone."""

    scores: tuple[ReidentificationScore, ...]

    def score(
        self, group: str = "all", size: str = "all", among: bool = False
    ) -> ReidentificationScore:
        """One of them. Raises :class:`InputError` where there is none."""
        for score in self.scores:
            if (score.group, score.size, score.among) == (group, size, among):
                return score
        raise InputError(
            f"no score of {group!r} persons in units of {size!r}",
            where="re-identification",
            remedy=f"groups are {', '.join(GROUPS)}; sizes all, {', '.join(SIZES)}",
        )

    @property
    def agreement(self) -> float:
        """Part of all persons who agree with a guessed record."""
        return self.score().agreement


@dataclass(frozen=True, eq=False)
class KeyedRecords(Frozen):
    """Records by unit, by what is known of them, and by what is sensitive, as numbers from 0,
    ``(records,)``; each stands for ``count``."""

    unit: Ints
    known: Ints
    sensitive: Ints
    count: Ints

    def __post_init__(self) -> None:
        if len({x.shape for x in (self.unit, self.known, self.sensitive, self.count)}) > 1:
            raise InputError("not a value for each record", where="re-identification")

    @staticmethod
    def from_histogram(
        h: Histogram, schema: Schema, known: Sequence[str], sensitive: Sequence[str]
    ) -> KeyedRecords:
        """Those of a histogram of the lowest level."""
        a, b = _code(schema, known), _code(schema, sensitive)
        return KeyedRecords(h.unit, a[h.cell], b[h.cell], h.count)


@dataclass(frozen=True, eq=False)
class _PersonPairs:
    """Persons by unit, known and sensitive attributes, ``(pairs,)``: ``t`` of them, ``r`` guessed,
    and ``n`` and ``m`` of the unit and known attributes together."""

    unit: Ints
    sensitive: Ints
    t: Ints
    r: Ints
    n: Ints
    m: Ints


def reidentify(
    guess: Histogram,
    truth: Histogram,
    spine: Spine,
    schema: Schema,
    *,
    known: Sequence[str] = KNOWN,
    sensitive: Sequence[str] = SENSITIVE,
    among: Bools | None = None,
) -> ReidentificationScores:
    """The scores of a guess. ``guess`` and ``truth`` ``(units, cells)`` of the lowest level;
    ``among`` ``(units,)``: units whose scores are wanted by themselves, too.

    Raises:
        InputError: histograms of another tree or schema, or an attribute that is both known and
            sensitive."""
    _check(guess, truth, spine, schema, known, sensitive, among)
    read, true = (KeyedRecords.from_histogram(h, schema, known, sensitive) for h in (guess, truth))
    return score_records(read, true, spine, among)


def score_records(
    guess: KeyedRecords, truth: KeyedRecords, spine: Spine, among: Bools | None = None
) -> ReidentificationScores:
    """Scores for any records that are known by something, such as households by their
    householder."""
    pairs = _pairs(guess, truth)
    units = spine.units(spine.levels[-1])
    persons = np.bincount(truth.unit, weights=truth.count, minlength=units).astype(np.int64)
    mode = _modes(pairs, spine)
    size = np.searchsorted(_CLASSES, persons, side="right")[pairs.unit]
    nonmodal = pairs.sensitive != mode[pairs.unit]
    values = _values(pairs, mode, persons)
    return ReidentificationScores(tuple(_scores(pairs, nonmodal, size, values, among)))


def _check(
    guess: Histogram,
    truth: Histogram,
    spine: Spine,
    schema: Schema,
    known: Sequence[str],
    sensitive: Sequence[str],
    among: Bools | None,
) -> None:
    where = "re-identification"
    units = spine.units(spine.levels[-1])
    for name, h in (("guess", guess), ("truth", truth)):
        if (h.units, h.cells) != (units, schema.cells):
            raise InputError(f"the {name} has other units or cells than the tree", where=where)
    if both := set(known) & set(sensitive):
        raise InputError(f"{sorted(both)[0]!r} is both known and sensitive", where=where)
    if not known or not sensitive:
        raise InputError("no attribute is known, or none is sensitive", where=where)
    if among is not None and among.shape != (units,):
        raise InputError("not a mark for each unit", where=where)


def _pairs(guess: KeyedRecords, truth: KeyedRecords) -> _PersonPairs:
    known = 1 + max(int(x.known.max(initial=0)) for x in (truth, guess))
    kinds = 1 + max(int(x.sensitive.max(initial=0)) for x in (truth, guess))
    unit, a, b, count = (
        np.concatenate([getattr(truth, f), getattr(guess, f)])
        for f in ("unit", "known", "sensitive", "count")
    )
    place, of = np.unique(unit * known + a, return_inverse=True)
    every, at = np.unique(of * kinds + b, return_inverse=True)
    split = len(truth.unit)
    t, r = (
        np.bincount(at[x], weights=count[x], minlength=len(every)).astype(np.int64)
        for x in (slice(None, split), slice(split, None))
    )
    of = every // kinds
    n, m = (np.bincount(of, weights=x, minlength=len(place)).astype(np.int64)[of] for x in (t, r))
    return _PersonPairs(place[of] // known, every % kinds, t, r, n, m)


def _code(schema: Schema, names: Sequence[str]) -> Ints:
    """The combination of some attributes that each cell has, ``(cells,)``."""
    out = np.zeros(schema.cells, dtype=np.int64)
    for name in names:
        out = out * len(schema.attribute(name).levels) + schema.level_of(name)
    return out


def _kinds(pairs: _PersonPairs, unit: Ints, units: int) -> sparse.csr_array:
    """Persons of each unit by sensitive attributes; ``unit`` is the unit of each pair."""
    shape = (units, int(pairs.sensitive.max(initial=0)) + 1)
    return sparse.csr_array(sparse.coo_array((pairs.t, (unit, pairs.sensitive)), shape=shape))


def _mode(kinds: sparse.csr_array) -> Ints:
    """The most frequent of each unit, ``(units,)``; -1 where several are or nobody is there."""
    out = np.full(kinds.shape[0], -1, dtype=np.int64)
    most = np.asarray(kinds.max(axis=1).toarray()).ravel()
    unit = np.repeat(np.arange(len(out)), np.diff(kinds.indptr))
    first = (kinds.data == most[unit]) & (most[unit] > 0)
    times = np.bincount(unit[first], minlength=len(out))
    alone = first & (times[unit] == 1)
    out[unit[alone]] = kinds.indices[alone]
    return out


def _modes(pairs: _PersonPairs, spine: Spine) -> Ints:
    """The most frequent sensitive attributes, as an attacker takes them for each unit."""
    lowest = spine.levels[-1]
    own = _kinds(pairs, pairs.unit, spine.units(lowest))
    mode = np.where(own.sum(axis=1) > 1, _mode(own), -1)
    if len(spine) > 1:
        parent = spine.parent[-1]
        above = _mode(_kinds(pairs, parent[pairs.unit], spine.units(spine.levels[-2])))
        mode = np.where(mode < 0, above[parent], mode)
    every = np.bincount(pairs.sensitive, weights=pairs.t, minlength=1)
    return np.where(mode < 0, int(every.argmax()), mode)


def _values(pairs: _PersonPairs, mode: Ints, persons: Ints) -> dict[str, Floats]:
    """What each pair adds to a score, by its field."""
    kinds = int(pairs.sensitive.max(initial=0)) + 1
    _, of = np.unique(pairs.unit * kinds + pairs.sensitive, return_inverse=True)
    c, whole = np.bincount(of, weights=pairs.t)[of], persons[pairs.unit]
    putative = pairs.t * np.minimum(pairs.n, pairs.m) / np.maximum(pairs.n, 1)
    return {
        "persons": pairs.t.astype(float),
        "agree": np.minimum(pairs.t, pairs.r).astype(float),
        "putative": putative,
        "confirmed": pairs.t * pairs.r / np.maximum(np.maximum(pairs.n, pairs.m), 1),
        "modal": putative * (pairs.sensitive == mode[pairs.unit]),
        "proportional": putative * c / np.maximum(whole, 1),
        "leave_one_out": putative * np.maximum(c - 1, 0) / np.maximum(whole - 1, 1),
    }


def _scores(
    pairs: _PersonPairs, nonmodal: Bools, size: Ints, values: dict[str, Floats], among: Bools | None
) -> Iterator[ReidentificationScore]:
    each = {"all": np.ones(len(pairs.t), dtype=bool), "nonmodal": nonmodal}
    each["nonmodal unique"] = nonmodal & (pairs.n == 1)
    for only in (False, True) if among is not None else (False,):
        for group in GROUPS:
            inside = each[group] & among[pairs.unit] if only and among is not None else each[group]
            sums = {
                name: np.bincount(size[inside], weights=v[inside], minlength=len(SIZES) + 1)
                for name, v in values.items()
            }
            yield _score(group, "all", only, {k: float(v.sum()) for k, v in sums.items()})
            for i, label in enumerate(SIZES):
                yield _score(group, label, only, {k: float(v[i + 1]) for k, v in sums.items()})


def _score(group: str, size: str, only: bool, sums: dict[str, float]) -> ReidentificationScore:
    persons = round(sums.pop("persons"))
    return ReidentificationScore(group, size, only, persons, **sums)
