"""Ways out of an enclosed process, for somebody who owns its code and knows every path: a job that
tries them, in a module that imports nothing of the truth.

Each way raises :class:`OSError` where it is refused, and says what it got where it is not."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import signal
import socket
import stat
import struct
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from das.engine.enclosed import Arrays, Conversation

#: What must be there for a way to be refused, any of them: a version of Landlock, or another part.
Needs = frozenset[str | int]


@dataclass(frozen=True)
class Known:
    """What an attacker knows of the run: its folder, with a file and a key; a file in shared memory;
    its process; a server of a name, of an abstract one and of a port; shared memory by its number.
    """

    run: str
    shared: str
    process: int
    name: str
    abstract: str
    port: int
    memory: int

    @property
    def truth(self) -> str:
        return f"{self.run}/confidential/truth"


Way = Callable[[Known], object]
WAYS: dict[str, tuple[Needs, Way]] = {}
_LIBC = ctypes.CDLL(None, use_errno=True)
_LIBC.syscall.restype = ctypes.c_long
_X86 = platform.machine() == "x86_64"


def way(*needs: str | int) -> Callable[[Way], Way]:
    def kept(try_it: Way) -> Way:
        WAYS[try_it.__name__] = frozenset(needs), try_it
        return try_it

    return kept


def call(number: int, *arguments: Any) -> int:
    found: int = _LIBC.syscall(number, *arguments)
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


# --- files
# --------------------------------------------------------------------------------------------------


@way(1)
def read_the_truth(known: Known) -> object:
    return Path(known.truth).read_text()


@way(1)
def read_it_by_the_root_of_a_process(known: Known) -> object:
    return Path(f"/proc/self/root{known.truth}").read_text()


@way(1)
def read_it_after_a_change_of_folder(known: Known) -> object:
    os.chdir(f"{known.run}/confidential")
    try:
        return Path("truth").read_text()
    finally:
        os.chdir("/")


@way(1)
def read_it_by_a_fork(known: Known) -> object:
    says, said = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.write(said, Path(known.truth).read_bytes())
        finally:
            os._exit(0)
    os.close(said)
    os.waitpid(pid, 0)
    with os.fdopen(says) as file:
        return file.read() or _refused()


@way(1)
def read_it_by_a_shell(known: Known) -> object:
    done = subprocess.run(["/bin/sh", "-c", f"cat {known.truth}"], capture_output=True, check=False)
    return done.stdout.decode() or _refused()


@way(1)
def read_shared_memory_by_its_file(known: Known) -> object:
    return Path(known.shared).read_text()


@way(1)
def list_the_run(known: Known) -> object:
    return os.listdir(known.run)


@way(1, "seccomp")
def write_into_the_run(known: Known) -> object:
    return Path(known.run, "new").write_text("new")


@way(1, "seccomp")
def append_to_the_truth(known: Known) -> object:
    with open(known.truth, "a", encoding="ascii") as file:
        return file.write("!")


@way(3, "seccomp")
def truncate_the_truth(known: Known) -> object:
    return os.truncate(known.truth, 40)


@way(1, "seccomp")
def rename_the_truth(known: Known) -> object:
    return os.rename(known.truth, f"{known.truth}-moved")


@way(1, "seccomp")
def link_the_truth(known: Known) -> object:
    return os.link(known.truth, f"{known.run}/link")


@way(1, "seccomp")
def make_a_symbolic_link(known: Known) -> object:
    return os.symlink(known.truth, f"{known.run}/symbolic")


@way(1, "seccomp")
def make_a_folder(known: Known) -> object:
    return os.mkdir(f"{known.run}/folder")


@way(1, "seccomp")
def delete_the_truth(known: Known) -> object:
    return os.unlink(f"{known.run}/confidential/second")


@way("seccomp")
def open_the_truth_to_others(known: Known) -> object:
    return os.chmod(f"{known.run}/confidential", 0o777)


@way("seccomp")
def set_the_time_of_the_truth(known: Known) -> object:
    return os.utime(f"{known.run}/confidential")


@way("seccomp")
def watch_the_run(known: Known) -> object:
    at = call(294 if _X86 else 26, 0)
    return call(254 if _X86 else 27, at, known.run.encode(), ctypes.c_uint32(0xFFF))


@way("seccomp")
def find_a_file_by_its_handle(known: Known) -> object:
    handle = ctypes.create_string_buffer(struct.pack("=Ii", 128, 0), 136)
    at = ctypes.c_int()
    return call(303 if _X86 else 264, -100, known.truth.encode(), handle, ctypes.byref(at), 0)


@way(1)
def read_the_settings_of_the_system(known: Known) -> object:
    return Path("/proc/sys/kernel/core_pattern").read_text()


@way()
def use_an_open_file(known: Known) -> object:
    """Also sockets to others; what it has of its own are pipes, a pair of sockets, and /dev/null."""
    for fd in {*range(3, 200)}:
        try:
            kind = os.fstat(fd).st_mode
        except OSError:
            continue
        if stat.S_ISREG(kind) or stat.S_ISDIR(kind):
            return f"{fd}: {stat.filemode(kind)}"
    return _refused()


# --- other processes
# --------------------------------------------------------------------------------------------------


@way(1)
def read_the_memory_of_the_other(known: Known) -> object:
    return open(f"/proc/{known.process}/mem", "rb").close()


@way(1)
def read_its_command_line(known: Known) -> object:
    return Path(f"/proc/{known.process}/cmdline").read_bytes().decode()


@way(1)
def read_its_environment(known: Known) -> object:
    return Path(f"/proc/{known.process}/environ").read_bytes().decode()


@way(1)
def see_its_folder(known: Known) -> object:
    return os.readlink(f"/proc/{known.process}/cwd")


@way(1)
def list_all_processes(known: Known) -> object:
    return os.listdir("/proc")


@way(1)
def list_its_open_files(known: Known) -> object:
    return os.listdir(f"/proc/{known.process}/fd")


@way("seccomp")
def trace_it(known: Known) -> object:
    found = call(101 if _X86 else 117, 0x4206, known.process, 0, 0)  # PTRACE_SEIZE
    call(101 if _X86 else 117, 17, known.process, 0, 0)
    return found


@way("seccomp")
def read_its_memory_by_a_call(known: Known) -> object:
    own = ctypes.create_string_buffer(8)
    to = struct.pack("=QQ", ctypes.addressof(own), 8)
    return call(310 if _X86 else 270, known.process, to, 1, to, 1, 0)


@way("seccomp")
def take_a_file_of_it(known: Known) -> object:
    return call(438, call(434, known.process, 0), 0, 0)


@way(6)
def send_it_a_signal(known: Known) -> object:
    return os.kill(known.process, signal.SIGURG)


@way("seccomp")
def set_its_limits(known: Known) -> object:
    now = ctypes.create_string_buffer(16)
    return call(302 if _X86 else 261, known.process, 4, None, now)


# --- sockets and memory that processes share
# --------------------------------------------------------------------------------------------------


def _connected(family: int, address: Any) -> object:
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(5)
        s.connect(address)
        return s.getpeername()


@way("seccomp")
def connect_to_a_name(known: Known) -> object:
    return _connected(socket.AF_UNIX, known.name)


@way("seccomp", "namespaces", 6)
def connect_to_an_abstract_name(known: Known) -> object:
    return _connected(socket.AF_UNIX, f"\0{known.abstract}")


@way("seccomp", "namespaces", 4)
def connect_to_a_port(known: Known) -> object:
    return _connected(socket.AF_INET, ("127.0.0.1", known.port))


@way("seccomp")
def send_to_a_name_by_a_pair(known: Known) -> object:
    a, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with a, b:
        return str(a)


@way("seccomp", "namespaces")
def attach_shared_memory(known: Known) -> object:
    return call(30 if _X86 else 196, known.memory, None, 0o10000)


@way("seccomp", "namespaces")
def open_a_queue_of_messages(known: Known) -> object:
    return call(240 if _X86 else 180, b"das-probe", 0, 0, None)


@way("seccomp")
def make_a_ring(known: Known) -> object:
    return call(425, 4, ctypes.create_string_buffer(120))


@way("seccomp")
def run_a_program_in_memory(known: Known) -> object:
    at = os.memfd_create("program")
    os.write(at, Path(sys.executable).read_bytes()[:4])
    return at


@way("seccomp")
def use_a_key_of_the_session(known: Known) -> object:
    return call(250 if _X86 else 219, 0, -3, 1)


# --- the system
# --------------------------------------------------------------------------------------------------


@way("seccomp")
def make_a_namespace(known: Known) -> object:
    pid = os.fork()
    if not pid:
        os._exit(_LIBC.unshare(0x10000000) and 1)
    return os.waitpid(pid, 0)[1] and _refused()


@way("seccomp", 1)
def mount_a_folder(known: Known) -> object:
    if _LIBC.mount(b"none", b"/mnt", b"tmpfs", 0, None):
        _refused()
    return _LIBC.umount2(b"/mnt", 2)


@way("seccomp")
def type_into_the_terminal(known: Known) -> object:
    return fcntl.ioctl(2, 0x5412, b"x")


@way("seccomp")
def call_by_the_32_bit_interface(known: Known) -> object:
    """Its numbers are others: 20 is ``getpid``. Without that interface, the process is killed."""
    if not _X86:
        _refused()
    says, said = os.pipe()
    pid = os.fork()
    if not pid:
        code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        code.write(bytes([0xB8, 20, 0, 0, 0, 0xCD, 0x80, 0xC3]))
        at = ctypes.addressof(ctypes.c_char.from_buffer(code))
        os.write(said, str(ctypes.CFUNCTYPE(ctypes.c_int)(at)()).encode())
        os._exit(0)
    os.close(said)
    os.waitpid(pid, 0)
    with os.fdopen(says) as file:
        found = file.read()
    return _refused() if not found or int(found) < 0 else found


@way("privileges")
def keep_the_privileges_of_an_administrator(known: Known) -> object:
    """Those that change what belongs to others, or the system; not the one that finds code."""
    has = ctypes.create_string_buffer(24)
    _LIBC.capget(struct.pack("=Ii", 0x20080522, 0), has)
    return struct.unpack("=6I", has.raw)[1] & ~(1 << 2) or _refused()


def _refused() -> object:
    raise PermissionError


def tried(known: Known) -> dict[str, str]:
    found = {}
    for name, (_, try_it) in WAYS.items():
        try:
            found[name] = f"out: {try_it(known)!r}"
        except OSError as error:
            found[name] = type(error).__name__
    return found


@dataclass(frozen=True)
class Escape:
    """Tries each way, in this process and in a worker that it has started."""

    known: Known

    def perform(self, beyond: Conversation, pool: Executor) -> tuple[Mapping[str, Any], Arrays]:
        return {"here": tried(self.known), "worker": pool.submit(tried, self.known).result()}, {}
