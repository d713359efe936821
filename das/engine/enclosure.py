"""What the system refuses a process that has enclosed itself, besides what it was never given.

It refuses files (Landlock) and calls (seccomp). It gives the
process a network and shared memory of its own, which are empty (namespaces). It takes away the
privileges of an administrator, if there are any. None of this needs a privilege, and a system can
lack each part. So what it has is recorded, and the rest is left to the code: an enclosed process is
given no path, no name and no file."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import TypedDict

# The system refuses a process the calls that reach beyond it: seccomp of Linux, which needs no
# privilege.
#
# Landlock decides what is done to files by their place. This decides by
# the call, whatever it names. There is no socket but a pair without a name, and no look into another
# process. No memory and no message is shared by a number. There is no change of a file, no
# namespace, and nothing that only administrators do. Nor is there any call that is newer than this
# table, or of the 32-bit interfaces, which have numbers of their own.
#
# A filter is a program of the classic Berkeley packet filter over (number, architecture, arguments).
# A process cannot remove it, and all that it starts inherits it.
#
# Sources: Linux, Documentation/userspace-api/seccomp_filter.rst; arch/x86/entry/syscalls/
# syscall_64.tbl; include/uapi/asm-generic/unistd.h.

#: The number of each call that is refused, of x86-64 and of arm64 (- where it has none).
CALLS = """
socket 41 198 connect 42 203 bind 49 200 listen 50 201 accept 43 202 accept4 288 242
ptrace 101 117 process_vm_readv 310 270 process_vm_writev 311 271 kcmp 312 272 pidfd_getfd 438 438
pidfd_open 434 434 pidfd_send_signal 424 424 process_madvise 440 440 move_pages 279 239
migrate_pages 256 238 perf_event_open 298 241 userfaultfd 323 282 bpf 321 280
shmget 29 194 shmat 30 196 shmctl 31 195 semget 64 190 semctl 66 191 semop 65 193
semtimedop 220 192 msgget 68 186 msgsnd 69 189 msgrcv 70 188 msgctl 71 187 mq_open 240 180
mq_unlink 241 181 add_key 248 217 request_key 249 218 keyctl 250 219
io_uring_setup 425 425 io_uring_enter 426 426 io_uring_register 427 427
memfd_create 319 279 memfd_secret 447 447 execveat 322 281
creat 85 - truncate 76 45 ftruncate 77 46 rename 82 - renameat 264 38 renameat2 316 276 link 86 - linkat 265 37
symlink 88 - symlinkat 266 36 unlink 87 - unlinkat 263 35 mkdir 83 - mkdirat 258 34 rmdir 84 -
mknod 133 - mknodat 259 33 chmod 90 - fchmod 91 52 fchmodat 268 53 fchmodat2 452 452
chown 92 - fchown 93 55 lchown 94 - fchownat 260 54 utime 132 - utimes 235 - futimesat 261 -
utimensat 280 88 setxattr 188 5 lsetxattr 189 6 fsetxattr 190 7 removexattr 197 14
lremovexattr 198 15 fremovexattr 199 16 inotify_add_watch 254 27 fanotify_init 300 262
name_to_handle_at 303 264 open_by_handle_at 304 265 chroot 161 51 pivot_root 155 41 mount 165 40
umount2 166 39 open_tree 428 428 move_mount 429 429 fsopen 430 430 fsconfig 431 431 fsmount 432 432
fspick 433 433 mount_setattr 442 442 quotactl 179 60 quotactl_fd 443 443 setns 308 268
unshare 272 97 kexec_load 246 104 kexec_file_load 320 294 init_module 175 105 finit_module 313 273
delete_module 176 106 reboot 169 142 swapon 167 224 swapoff 168 225 acct 163 89 syslog 103 116
sethostname 170 161 setdomainname 171 162 settimeofday 164 170 clock_settime 227 112
adjtimex 159 171 clock_adjtime 305 266 iopl 172 - ioperm 173 - modify_ldt 154 - personality 135 92
"""
#: Calls that do not exist: their arguments are in memory, where no filter looks. The C library has
#: an older call for each.
ABSENT = "clone3 435 435 openat2 437 437"
#: Calls that are refused for one argument: its number, a test, and what it is tested against.
_ANY_BIT, _EQUAL = 0x45, 0x15
WITH = (
    ("socketpair 53 199", 1, _ANY_BIT, 0xE),  # only streams: others can be sent to a name
    ("open 2 -", 1, _ANY_BIT, 0o1103),  # to write, or to make a file
    ("openat 257 56", 2, _ANY_BIT, 0o1103),
    ("clone 56 220", 0, _ANY_BIT, 0x7E020000),  # namespaces
    ("prlimit64 302 261", 0, _ANY_BIT, 0xFFFFFFFF),  # limits of another process
    ("ioctl 16 29", 1, _EQUAL, 0x5412),  # TIOCSTI: to type into the terminal
)
#: The first number that is newer than this table (Linux 6.10). Those of x32 are above it, too.
NEWER = 463
#: What the system calls an architecture: its number, and the column of the calls.
_ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
_LOAD, _AT_LEAST, _RETURN = 0x20, 0x35, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_PR_SET_SECCOMP, _FILTER = 22, 2


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


def calls_within(libc: ctypes.CDLL) -> bool:
    """From here on this process makes no call that reaches beyond it. Returns whether the system
    has seen to that: this table may not know its architecture. Call it before there are threads,
    and when the process has given up new privileges."""
    known = _ARCHITECTURES.get(platform.machine())
    if known is None or sys.maxsize < 1 << 32:
        return False
    program = b"".join(_instructions(*known))
    given = _Program(len(program) // 8, program)
    return not libc.prctl(_PR_SET_SECCOMP, _FILTER, ctypes.byref(given), 0, 0)


def numbers(calls: str, column: int) -> dict[str, int]:
    words = calls.split()
    of = zip(words[::3], words[1 + column :: 3], strict=True)
    return {name: int(number) for name, number in of if number != "-"}


def _instructions(architecture: int, column: int) -> Iterator[bytes]:
    def do(code: int, operand: int, true: int = 0, false: int = 0) -> bytes:
        return struct.pack("=HBBI", code, true, false, operand)

    absent, denied = (do(_RETURN, _REFUSE | n) for n in (errno.ENOSYS, errno.EPERM))
    yield do(_LOAD, 4)
    yield from (do(_EQUAL, architecture, true=1), absent)
    yield do(_LOAD, 0)
    yield from (do(_AT_LEAST, NEWER, false=1), absent)
    for calls, answer in ((ABSENT, absent), (CALLS, denied)):
        for number in numbers(calls, column).values():
            yield from (do(_EQUAL, number, false=1), answer)
    for call, argument, test, operand in WITH:
        for number in numbers(call, column).values():
            yield do(_EQUAL, number, false=4)
            yield do(_LOAD, 16 + 8 * argument)  # its low half, on these machines
            yield from (do(test, operand, false=1), denied, do(_RETURN, _ALLOW))
    yield do(_RETURN, _ALLOW)


# The system refuses a process every file except code: Landlock of Linux (5.13 and later), which
# needs no privilege.
#
# A process gives up every right that Landlock knows, except to read code and to start it. It cannot
# take one back, and all that it starts inherits that. Files that are open stay open. So a process
# that has begun with nothing but pipes reads no record, no key and no release, and changes none,
# whatever its code tries. It also sees nothing that the system says of other processes.
#
# What Landlock refuses is more in each version (:data:`VERSIONS`). No version hides that a file
# exists, or how large it is.
#
# Source: Linux, Documentation/userspace-api/landlock.rst.

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
    files = code_alone(libc)
    calls = calls_within(libc)
    return Refusals(landlock=files, seccomp=calls, namespaces=namespaces, privileges=privileges)


def _without_privileges(libc: ctypes.CDLL) -> bool:
    head, has = struct.pack("=Ii", _VERSION_3, 0), ctypes.create_string_buffer(24)
    if libc.capget(head, has):
        return False
    kept = struct.unpack("=6I", has.raw)[1] & _READ_ALL
    return not libc.capset(head, struct.pack("=6I", kept, kept, 0, 0, 0, 0))
