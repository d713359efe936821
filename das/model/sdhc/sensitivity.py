r"""How far the answers of one S-DHC query are apart between neighbors.

A query has the answers of one table and one group of iterations, for all regions of a level. Each
row that it counts adds 1 to one answer. The rows of one address are all in one region.

**Relations.** *person*: one person record is added to an address, or removed from it. The unit
record of the address then changes at will, except its MAFID, its type and its place. *household*:
all that one address holds, its persons and its unit record, is replaced by anything.

**Claim.** Let an address add the vector :math:`x \ge 0` to the answers before the change, and
:math:`y \ge 0` after it. Truncation leaves :math:`\|x\|_1 \le \tau` and :math:`\|y\|_1 \le \tau`.
Then

.. math:: \|x - y\|_2^2 = \|x\|_2^2 + \|y\|_2^2 - 2 x \cdot y \le 2\tau^2, \qquad
          \|x - y\|_1 \le 2\tau.

*Proof.* All entries are non-negative, so :math:`x \cdot y \ge 0` and :math:`\|x\|_2 \le \|x\|_1`. ∎
Both relations are covered, and so is any rule that says who is kept. The bound is reached: tau
persons under a householder of race B, whose record changes to race A.

**Where it is less**, with the relation *person*:

* Who is kept follows from the persons alone (:mod:`das.truth.sdhc_counts`). One person more changes
  the kept persons by one swap: that person comes, and the last of them may go.
* ``PH1_num`` for all: the cell is the age of the person. A swap would change two answers
  by 1. So nobody is left out of it (:func:`untruncated`), and nobody goes: 1.
* ``PH4`` for all: the cell is the age, too. If the unit record says a family before and after, a
  swap costs 2. If it says so once, one of x and y is 0, and the other costs :math:`\tau^2`.
* Persons that truncation leaves out (``excess``): nobody is left out less than before, and one
  person is left out more, at most: 1. With *household* there is no bound, so it is not measured.
* Children that the tables of children leave out (``excess_children``): m children, less those that
  are kept, min(c, k), where k are children among the kept persons. A child that comes makes m one
  more, and k one more or none; another person that comes leaves m, and makes k one less or none. The
  difference grows by 0 or 1 in each case: 1. With *household* it is not measured.
* Denominators: an address is at most one row: 2, or 1 where the query has one answer.

PHSafe itself takes :math:`\Delta = 2\tau + 2` rows, all in one answer, and 2 for denominators: its
unit table may change in any two rows anywhere.

:class:`Reach` is such a bound: ``answers`` answers differ by ``by`` each. Its square sum prices
Gaussian noise, its sum geometric noise. The exhaustive test over small households is
``tests/sdhc/test_sensitivity.py``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from das.model.mechanism import Mechanism
from das.model.sdhc.tables import LEFT_OUT, TABLES

PHSAFE, TIGHT = "phsafe", "tight"
PERSON, HOUSEHOLD = "person", "household"


@dataclass(frozen=True)
class Reach:
    """``answers`` answers differ by at most ``by`` each between neighbors."""

    answers: int
    by: int

    def stability(self, mechanism: Mechanism) -> int:
        """Unit changes that cost as much: for pure noise their sum, otherwise their square sum."""
        return self.answers * (self.by if mechanism.pure else self.by**2)


def untruncated(mode: str, relation: str) -> str | None:
    """The table that counts everybody in its query for all (``*``), if there is one."""
    return "PH1_num" if (mode, relation) == (TIGHT, PERSON) else None


def reach(
    table: str, group: str, tau: Mapping[str, int], mode: str, relation: str = PERSON
) -> Reach | None:
    """Of a query; ``None`` where it has no bound, and so is not measured."""
    if mode == PHSAFE:
        if table in LEFT_OUT:
            return None
        return Reach(1, 2 * tau[table] + 2 if TABLES[table].people else 2)
    person, everybody = relation == PERSON, group == "*"
    if table in LEFT_OUT:
        return Reach(1, 1) if person else None
    if not TABLES[table].people:
        return Reach(1 if everybody and len(TABLES[table].cells) == 1 else 2, 1)
    if person and everybody and table == "PH1_num":
        return Reach(1, 1)
    if person and everybody and table == "PH4" and tau[table] > 1:
        return Reach(1, tau[table])
    return Reach(2, tau[table])
