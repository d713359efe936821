"""Where the processor time of the tests goes, by file: ``make test-times``.

Wall clock says little on a shared machine. The figures count this process and all that it has
started: on Linux, where ``/proc`` says what they have used, also those that are still at work.
(Elsewhere the time of a kernel or a browser is that of the test at whose end it ends.) A run or a
fixture that many tests share is counted at its first use. So a file can take more or less from one
time to the next."""

from __future__ import annotations

import os
import resource
from collections import Counter
from collections.abc import Generator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.stopped import descendants

#: How many files and tests are named.
FILES, TESTS = 40, 20


def processor_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(u.ru_utime + u.ru_stime for u in used) + at_work()


def at_work() -> float:
    """What all processes have used that this one has begun and that have not ended."""
    ticks = 0
    for pid in descendants(os.getpid()):
        with suppress(OSError):
            # after the name, which can have spaces: the state, and from the 12th word what it used,
            # and what those used that it has begun and waited for
            _, _, said = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            ticks += sum(map(int, said.split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Times:
    """Of each test, by its name: told by the process that ran it, summed up by the one that
    reports.
    """

    def __init__(self) -> None:
        self.since = processor_seconds()
        self.seconds: Counter[str] = Counter()

    def pytest_runtest_logstart(self) -> None:
        self.since = processor_seconds()  # what came before is no test: looking for all of them

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """At the end of each part of a test: setting up, calling, tearing down."""
        report = yield
        before, self.since = self.since, processor_seconds()
        # less than nothing where one has ended that nobody waited for: a browser's, counted before
        report.processor_seconds = max(0.0, self.since - before)
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.processor_seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        files: Counter[str] = Counter()
        for name, seconds in self.seconds.items():
            files[name.partition("::")[0]] += seconds
        told = files.total(), len(self.seconds)
        terminalreporter.section("processor time")
        terminalreporter.line(f"{told[0] / 60:.1f} minutes of {told[1]} tests, and of them seconds")
        for most in (files.most_common(FILES), self.seconds.most_common(TESTS)):
            for name, seconds in most:
                terminalreporter.line(f"{seconds:8.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Times(), "processor times")
