"""The system refuses a process every file except code: Landlock of Linux (5.13 and later), which
needs no privilege.

A process gives up the right to read files outside of some folders. It cannot take that back, and
all that it starts inherits it. Files that are open stay open. So a process that has begun with
nothing but pipes reads no record, no key and no release, whatever its code tries.

Source: Linux, Documentation/userspace-api/landlock.rst."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

#: Numbers of the calls of the system (the same for all architectures), and of what they are asked.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_READ_FILE, _BENEATH, _NO_NEW_PRIVILEGES = 1 << 2, 1, 38
#: Where systems keep programs, libraries, their settings, and what they say of processes.
_SYSTEM = ("/usr", "/lib", "/lib64", "/bin", "/etc", "/opt", "/nix", "/dev", "/proc", "/sys")
_CODE = (".py", ".so", ".pyc", ".dist-info")


class _Rules(ctypes.Structure):
    _fields_ = (("handled", ctypes.c_uint64),)


class _Below(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def code_alone() -> bool:
    """From here on this process reads no file except code (:func:`code`). Returns whether the
    system has seen to that: it may have no Landlock. Call it before there are threads."""
    if sys.platform != "linux":
        return False
    libc, rules = ctypes.CDLL(None, use_errno=True), _Rules(_READ_FILE)
    ours = libc.syscall(_CREATE, ctypes.byref(rules), ctypes.sizeof(rules), 0)
    if ours < 0:
        return False
    tempfile.gettempdir()  # it is found by a file that is made and read there
    try:
        for place in code():
            _allow(libc, ours, place)
        return not (libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) or libc.syscall(_RESTRICT, ours, 0))
    finally:
        os.close(ours)


def _allow(libc: ctypes.CDLL, rules: int, place: Path) -> None:
    try:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # there is none
        return
    try:
        libc.syscall(_ADD, rules, _BENEATH, ctypes.byref(_Below(_READ_FILE, at)), 0)
    finally:
        os.close(at)


def code() -> Iterator[Path]:
    """Where code is: the system, Python and its libraries; of any other folder that modules are
    looked for in, such as a clone, its packages and modules, because data can be next to them."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    yield from map(Path, {*_SYSTEM, *own})
    for entry in map(Path, sys.path):
        if entry.name in ("site-packages", "dist-packages") or entry.suffix == ".zip":
            yield entry
        elif entry.is_dir():
            yield from (p for p in entry.iterdir() if p.suffix in _CODE or any(p.glob("*.py")))
