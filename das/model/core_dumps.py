"""No copy of this process's memory: the truth and the noise key must not reach a core dump.

A crash can write the memory of a process to disk: into its folder, or through a program of the
system such as ``systemd-coredump`` or ``apport``, which keeps it for months where administrators
read it. Two settings prevent that, and one is not enough. The limit ``RLIMIT_CORE`` of 0 stops a
file, but Linux ignores it where ``core_pattern`` names a program (core(5)). ``PR_SET_DUMPABLE`` of
0 stops both. It also keeps other processes of the same user from attaching to this one and reading
its memory. Only Linux has it. Neither survives the start of another program, so every worker calls
this again."""

from __future__ import annotations

import ctypes
import resource
import sys

from das.errors import PrivacyError

_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4  # linux/prctl.h
_done = False  #: a forked process has inherited this, and the settings with it


def forbid() -> None:
    """From here on this process leaves no core dump.

    Raises:
        PrivacyError: the system does not allow it."""
    global _done
    if _done:
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if sys.platform == "linux" and ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        raise PrivacyError(
            "core dumps cannot be turned off, and one would hold the truth",
            where="prctl",
            remedy="allow PR_SET_DUMPABLE in the sandbox that das runs in",
        )
    _done = True


def forbidden() -> bool:
    """What the system says of this process."""
    limited = resource.getrlimit(resource.RLIMIT_CORE)[0] == 0
    return limited and (
        sys.platform != "linux" or ctypes.CDLL(None).prctl(_PR_GET_DUMPABLE, 0, 0, 0, 0) == 0
    )
