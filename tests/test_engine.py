"""Spreading work: answers in order, faults as they are, and no more under way than asked for."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st
from threadpoolctl import threadpool_info, threadpool_limits

from das.engine import executor, in_order
from das.errors import DasError


def square(x: int) -> int:
    return x * x


def number(_: int) -> int:
    return os.getpid()


def slow_then_fast(x: int) -> int:
    time.sleep(0.02 * (3 - x % 4))
    return x


def fault_at_three(x: int) -> int:
    if x == 3:
        raise KeyError("the item has a fault")
    return x


def threads(_: int) -> list[int]:
    import scipy.linalg

    assert scipy.linalg
    return [library["num_threads"] for library in threadpool_info()]


def test_one_worker_is_this_process() -> None:
    with executor(1) as pool:
        assert list(in_order(pool, number, [1, 2])) == [os.getpid()] * 2


def test_two_workers_are_processes_of_their_own_with_one_thread_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever the number of workers, sums are added in one order: no library may use threads,
    though it might.
    """
    for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        monkeypatch.setenv(name, "2")
    with executor(2) as pool:
        assert list(in_order(pool, square, range(50), ahead=4)) == [x * x for x in range(50)]
        found = list(in_order(pool, threads, range(4)))
        assert os.getpid() not in set(in_order(pool, number, range(4)))
        with pytest.raises(KeyError, match="the item has a fault"):
            list(in_order(pool, fault_at_three, range(10)))
    assert found
    assert {n for f in found for n in f} == {1}
    with threadpool_limits(2), executor(1) as pool:
        assert {n for f in in_order(pool, threads, range(2)) for n in f} == {1}


def test_a_worker_that_is_killed_ends_the_work_with_a_message() -> None:
    with pytest.raises(DasError, match="a worker process was ended") as end, executor(2) as pool:
        pool.submit(os._exit, 1).result()
    assert end.value.exit_code == 3


@given(
    items=st.lists(st.integers(), max_size=40),
    ahead=st.integers(1, 20),
    workers=st.sampled_from([1, 4]),
)
def test_answers_come_in_the_order_of_the_items(items: list[int], ahead: int, workers: int) -> None:
    with executor(1) if workers == 1 else ThreadPoolExecutor(workers) as pool:
        assert list(in_order(pool, square, items, ahead=ahead)) == [x * x for x in items]


def test_the_order_holds_when_later_items_are_ready_first() -> None:
    with ThreadPoolExecutor(4) as pool:
        assert list(in_order(pool, slow_then_fast, range(12))) == list(range(12))


@pytest.mark.parametrize("workers", [1, 3])
def test_a_fault_arrives_after_the_answers_before_it(workers: int) -> None:
    got = []
    with executor(1) if workers == 1 else ThreadPoolExecutor(workers) as pool:
        answers = in_order(pool, fault_at_three, range(10), ahead=5)
        with pytest.raises(KeyError, match="the item has a fault"):
            got.extend(answers)
    assert got == [0, 1, 2]


class Counting(Executor):
    """Futures that are answered when the test says so."""

    def __init__(self) -> None:
        self.open: list[tuple[Future[int], int]] = []
        self.most = 0

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        future: Future[int] = Future()
        self.open.append((future, fn(*args)))
        self.most = max(self.most, len(self.open))
        threading.Timer(0.001, self.answer).start()
        return future

    def answer(self) -> None:
        future, value = self.open.pop(0)
        future.set_result(value)


@pytest.mark.parametrize("ahead", [1, 2, 7])
def test_no_more_is_under_way_than_asked_for(ahead: int) -> None:
    """Neither submitted nor even taken from the items: those may be large."""
    taken: list[int] = []
    given: list[int] = []

    def items() -> Iterator[int]:
        for i in range(30):
            taken.append(i)
            assert len(taken) - len(given) <= ahead
            yield i

    pool = Counting()
    for answer in in_order(pool, square, items(), ahead=ahead):
        given.append(answer)
    assert given == [i * i for i in range(30)]
    assert pool.most <= ahead
    assert len(taken) == 30


def test_nothing_to_do() -> None:
    with executor(1) as pool:
        assert list(in_order(pool, square, [])) == []
