"""What the system refuses a process that has enclosed itself, besides what it was never given.

It refuses files (:mod:`das.engine.landlock`) and calls (:mod:`das.engine.seccomp`). It gives the
process a network and shared memory of its own, which are empty (namespaces). It takes away the
privileges of an administrator, if there are any. None of this needs a privilege, and a system can
lack each part. So what it has is recorded, and the rest is left to the code: an enclosed process is
given no path, no name and no file."""

from __future__ import annotations

import ctypes
import struct
import sys
from typing import TypedDict

from das.engine import landlock, seccomp

_NO_NEW_PRIVILEGES = 38  # linux/prctl.h
_OWN_USER, _OWN_NETWORK, _OWN_MEMORY = 0x10000000, 0x40000000, 0x08000000  # linux/sched.h
#: Of an administrator's privileges it keeps the one that finds code in folders of other users.
_VERSION_3, _READ_ALL = 0x20080522, 1 << 2  # linux/capability.h


class Refusals(TypedDict):
    """What the system refuses: the version of Landlock (0 without it), and which of the others."""

    landlock: int
    seccomp: bool
    namespaces: bool
    privileges: bool


def enclose() -> Refusals:
    """From here on the system refuses this process, and all that it starts, whatever it can refuse.
    Call it before there are threads."""
    if sys.platform != "linux":
        return Refusals(landlock=0, seccomp=False, namespaces=False, privileges=False)
    libc = ctypes.CDLL(None, use_errno=True)
    alone = _OWN_NETWORK | _OWN_MEMORY
    namespaces = not (libc.unshare(alone) and libc.unshare(alone | _OWN_USER))
    privileges = _without_privileges(libc)
    libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    files = landlock.code_alone(libc)
    calls = seccomp.calls_within(libc)
    return Refusals(landlock=files, seccomp=calls, namespaces=namespaces, privileges=privileges)


def _without_privileges(libc: ctypes.CDLL) -> bool:
    head, has = struct.pack("=Ii", _VERSION_3, 0), ctypes.create_string_buffer(24)
    if libc.capget(head, has):
        return False
    kept = struct.unpack("=6I", has.raw)[1] & _READ_ALL
    return not libc.capset(head, struct.pack("=6I", kept, kept, 0, 0, 0, 0))
