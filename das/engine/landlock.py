"""The system refuses a process every file except code: Landlock of Linux (5.13 and later), which
needs no privilege.

A process gives up every right that Landlock knows, except to read code and to start it. It cannot
take one back, and all that it starts inherits that. Files that are open stay open. So a process
that has begun with nothing but pipes reads no record, no key and no release, and changes none,
whatever its code tries. It also sees nothing that the system says of other processes.

What Landlock refuses is more in each version (:data:`VERSIONS`). No version hides that a file
exists, or how large it is.

Source: Linux, Documentation/userspace-api/landlock.rst."""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

#: Numbers of the calls of the system (the same for all architectures), and of what they are asked.
_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1
_START, _READ, _LIST = 1 << 0, 1 << 2, 1 << 3
#: Rights by the version that brought them: of files, of networks, of scope.
VERSIONS = {
    1: ((1 << 13) - 1, 0, 0),  # start, write, read, list, remove, make
    2: (1 << 13, 0, 0),  # move or link to another folder
    3: (1 << 14, 0, 0),  # truncate
    4: (0, 0b11, 0),  # bind to TCP, connect by it
    5: (1 << 15, 0, 0),  # commands to devices
    6: (0, 0, 0b11),  # sockets with abstract names, signals, both to processes outside
}
#: Where systems keep libraries, and the devices that give nothing but zeros and random numbers.
_SYSTEM = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/nix/store")
_NEEDED = ("/etc/ld.so.cache", "/sys/devices/system/cpu", "/dev/null", "/dev/zero", "/dev/urandom")
_CODE = (".py", ".so", ".pyc", ".dist-info")


class _Rules(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("networks", ctypes.c_uint64),
        ("scope", ctypes.c_uint64),
    )


class _Below(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def code_alone(libc: ctypes.CDLL) -> int:
    """From here on this process reads no file except code (:func:`code`) and writes none. Returns
    the version of Landlock that sees to it, or 0: the system may have none. Call it before there
    are threads, and when the process has given up new privileges."""
    version = max(0, libc.syscall(_CREATE, None, 0, _ASK_VERSION))
    offered = [rights for since, rights in VERSIONS.items() if since <= version]
    rules = _Rules(*(sum(kind) for kind in zip(*offered, strict=True)))
    if not offered or (ours := libc.syscall(_CREATE, ctypes.byref(rules), 24, 0)) < 0:
        return 0
    try:
        for place, rights in code():
            _allow(libc, ours, place, rights)
        return 0 if libc.syscall(_RESTRICT, ours, 0) else version
    finally:
        os.close(ours)


def _allow(libc: ctypes.CDLL, rules: int, place: Path, rights: int) -> None:
    try:
        at = os.open(place, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # there is none
        return
    try:
        libc.syscall(_ADD, rules, _BENEATH, ctypes.byref(_Below(rights, at)), 0)
    finally:
        os.close(at)


def code() -> Iterator[tuple[Path, int]]:
    """Where code is, and the rights to it: the system's libraries, Python and its own. Any other
    folder with modules, such as a clone, can have data next to them. Of that one, these are its
    packages, its modules, and the names in it."""
    own = {sys.prefix, sys.base_prefix, sys.exec_prefix, *sysconfig.get_paths().values()}
    libraries = filter(None, os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep))
    whole = [Path(name) for name in {*_SYSTEM, *_NEEDED, *own, *libraries}]
    for entry in map(Path, sys.path):
        if entry.name in ("site-packages", "dist-packages") or entry.suffix == ".zip":
            whole.append(entry)
        elif entry.is_dir():
            yield entry, _LIST
            whole += (p for p in entry.iterdir() if p.suffix in _CODE or any(p.glob("*.py")))
    for place in whole:
        yield place, _START | _READ | (_LIST if place.is_dir() else 0)
