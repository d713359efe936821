"""How a case ended: right, refused, or at fault."""

from __future__ import annotations

import io
import signal
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass

from das.errors import UserError

#: The most characters of a message; the most seconds of the processor for a case, and how many times
#: as many on the wall, where others are at work.
LONGEST, SECONDS, WAITING = 2000, 60, 10


@dataclass(frozen=True)
class Verdict:
    """``ended`` is ``right`` or ``refused``, or says what is wrong; ``said`` is the message or the
    traceback.
    """

    ended: str
    said: str = ""

    @property
    def fault(self) -> bool:
        return self.ended not in ("right", "refused")


class Slow(BaseException):
    """A case took too long."""


@contextmanager
def _watched(seconds: int = SECONDS) -> Iterator[None]:
    def late(*_: object) -> None:
        raise Slow

    timers = (
        (signal.SIGPROF, signal.ITIMER_PROF, seconds),
        (signal.SIGALRM, signal.ITIMER_REAL, WAITING * seconds),
    )
    before = [signal.signal(number, late) for number, _, _ in timers]
    for _, timer, most in timers:
        signal.setitimer(timer, most)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(timers, before, strict=True):
            signal.setitimer(timer, 0)
            signal.signal(number, handler)


def call(work: Callable[[], object], seconds: int = SECONDS) -> Verdict:
    """The verdict on a function that raises :class:`UserError` for bad input, and takes at most
    ``seconds``.
    """
    printed = io.StringIO()
    with warnings.catch_warnings(record=True) as told, redirect_stderr(printed):
        warnings.simplefilter("always")
        try:
            with _watched(seconds):
                work()
        except UserError as error:
            return _message(f"{error}{printed.getvalue()}", error.exit_code)
        except Slow:
            return Verdict(f"took more than {seconds} s", traceback.format_exc())
        except Exception as error:
            return Verdict(f"crash: {type(error).__name__}", traceback.format_exc())
    if "Traceback" in printed.getvalue():
        return Verdict("prints a traceback", printed.getvalue())
    odd = [w for w in told if issubclass(w.category, RuntimeWarning | UserWarning)]
    return Verdict("warns", str(odd[0].message)) if odd else Verdict("right")


def command(arguments: Sequence[str]) -> tuple[Verdict, str]:
    """Of a command line, in this process; and what it printed."""
    from das.cli import main

    out, err, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        try:
            with _watched():
                main.main(list(arguments), prog_name="das")
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else int(end.code is not None)
        except Slow:
            return Verdict(f"took more than {SECONDS} s", traceback.format_exc()), out.getvalue()
        except Exception as error:
            return Verdict(f"crash: {type(error).__name__}", traceback.format_exc()), out.getvalue()
    said = err.getvalue()
    if code:
        return _message(said, code), out.getvalue()
    return (Verdict("warns", said) if "Warning" in said else Verdict("right")), out.getvalue()


def _message(said: str, code: int) -> Verdict:
    if "Traceback" in said or "this should not have happened" in said:
        return Verdict("crash", said)
    if code != 2:
        return Verdict(f"exit {code}", said)
    if len(said) > LONGEST:
        return Verdict(f"a message of {len(said)} characters", said)
    if not said.strip():
        return Verdict("refused without a word")
    return Verdict("warns", said) if "Warning:" in said else Verdict("refused", said)
