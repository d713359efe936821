"""What a command says of paths, streams, signals and memory that nobody meant: one message and exit
code 2, or 130.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from das import __main__ as program
from das import cli, plugins
from das.cli.kit import lazy
from das.cli.kit.interruption import Terminated, terminable
from das.cli.kit.options import OUT, PATH, guarded
from das.errors import SpecError, UserError
from das.files.run import run_directory
from das.files.store import Store
from tests.worlds import ROOT, Worlds


@click.command()
@click.argument("path", type=PATH)
@click.option("--out", type=OUT)
def named(path: Path, out: Path | None) -> None:
    click.echo(f"{path}|{out}")


def test_a_path_with_a_colon_is_one_of_this_machine() -> None:
    """``run:1`` is an address to the libraries that read Parquet; no absolute path is."""
    found = Path(CliRunner().invoke(named, ["run:1/release"]).output.partition("|")[0])
    assert found == Path.cwd() / "run:1" / "release"
    assert CliRunner().invoke(named, ["run/1:2"]).output.startswith("run/1:2|")


@pytest.mark.parametrize("address", ["s3://bucket/run", "gs://b/x", "file:///tmp/x", "https://x/y"])
def test_an_address_is_no_path(address: str) -> None:
    done = CliRunner().invoke(named, [address])
    assert done.exit_code == 2
    assert "das store pull fetches" in done.output


def test_nothing_is_written_into_a_release(worlds: Worlds) -> None:
    release = worlds.run("run.seed=1", data="one of three") / "release"
    for out in (release / "x.csv", release / "tables" / "deep" / "x.csv"):
        done = CliRunner().invoke(named, ["x", "--out", str(out)])
        assert done.exit_code == 2
        assert "which may be published" in done.output
        done = CliRunner().invoke(
            cli.main,
            ["tables", str(release), "--table", "P1", "--level", "State", "--out", str(out)],
        )
        assert done.exit_code == 2
        assert not out.exists()


def test_a_name_that_is_too_long_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(named, ["x", "--out", str(tmp_path / ("1" * 4000))])
    assert done.exit_code == 2
    assert "File name too long" in done.output
    assert len(done.output) < 2000


def test_a_text_without_end_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device before it is opened, a file when more than that was read."""
    with pytest.raises(UserError, match="is a device"):
        run_directory.read_text(Path("/dev/zero"), "configuration")
    monkeypatch.setattr(run_directory, "LONGEST", 1000)
    (long := tmp_path / "long").write_text("x" * 1001)
    with pytest.raises(SpecError, match="more than 1,000 bytes"):
        run_directory.read_text(long, "configuration")


def test_a_terminal_without_the_sign_for_plus_or_minus() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "das", "plan", "pl94-2010"],
        cwd=ROOT,
        env=os.environ | {"PYTHONIOENCODING": "ascii"},
        capture_output=True,
        check=True,
    )
    assert rb"\xb1" in done.stdout


def test_standard_output_that_is_closed_or_full(worlds: Worlds) -> None:
    release = worlds.run("run.seed=1", data="one of three") / "release"
    command = [
        sys.executable,
        "-m",
        "das",
        "tables",
        str(release),
        "--table",
        "P1",
        "--level",
        "State",
    ]
    closed = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (closed.returncode, "standard output is closed" in closed.stderr) == (2, True)
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "das: tables: No space left on device\n"


# --- before a command has begun
# ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error, code, says",
    [
        (KeyboardInterrupt(), 130, "das: interrupted\n"),
        (MemoryError(), 2, "not enough memory"),
        (ImportError("libx.so: failed to map segment from shared object"), 2, "not enough memory"),
    ],
)
def test_what_ends_a_command_while_it_is_imported(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, says: str
) -> None:
    def imported(_: str) -> None:
        raise error

    for owner, words in ((plugins, ["intervals", "x"]), (lazy, ["detailed", "plan"])):
        with monkeypatch.context() as patch:
            patch.setattr(owner, "import_module", imported)
            done = CliRunner().invoke(cli.main, words)
        assert done.exit_code == code
        assert says in done.output
        assert "Traceback" not in done.output
        assert "Aborted" not in done.output


def test_ctrl_c_while_the_command_line_is_loaded(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Interrupted:
        def __getattr__(self, name: str) -> None:
            raise KeyboardInterrupt

    monkeypatch.setitem(sys.modules, "das.cli", Interrupted())
    with pytest.raises(SystemExit) as ended:
        program.run()
    assert ended.value.code == 130
    assert capsys.readouterr().err == "das: interrupted\n"


def test_an_import_that_fails_for_another_reason_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    def imported(_: str) -> None:
        raise ImportError("no such module")

    monkeypatch.setattr(lazy, "import_module", imported)
    assert isinstance(CliRunner().invoke(cli.main, ["detailed", "plan"]).exception, ImportError)
    monkeypatch.setattr(plugins, "import_module", imported)
    done = CliRunner().invoke(cli.main, ["intervals", "x"])
    assert done.exit_code == 2
    assert "'intervals' of topdown-das" in done.output
    assert "ImportError: no such module" in done.output


def test_too_little_memory_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def command() -> None:
        try:
            raise MemoryError
        except MemoryError:
            raise TypeError("Got unexpected argument type") from None

    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(
        "das: there is not enough memory for this\n  what to do: "
    )


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS])
def test_a_disk_that_is_full_or_read_only(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    @guarded
    def command() -> None:
        raise OSError(number, os.strerror(number), "there")

    with pytest.raises(SystemExit) as ended:
        command()
    assert ended.value.code == 2
    assert capsys.readouterr().err == f"das: there: {os.strerror(number)}\n"


# --- files
# ---------------------------------------------------------------------------------------------------------


def test_a_name_in_a_store_that_is_no_text(tmp_path: Path) -> None:
    try:
        (tmp_path / os.fsdecode(b"\xff\xfe.csv")).write_bytes(b"x")
    except OSError:
        pytest.skip("this file system takes names in UTF-8 alone")
    with pytest.raises(UserError, match="no text in UTF-8"):
        Store.at(tmp_path.as_uri()).sizes()


def test_a_full_disk_here_is_no_fault_of_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said at once, with the place on this machine: another attempt would end the same."""
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "x").write_bytes(b"whole")
    monkeypatch.setattr("das.files.store.sleep", lambda _: pytest.fail("it tries again"))
    with pytest.raises(UserError, match="cannot be written") as caught:
        Store.at((tmp_path / "store").as_uri()).get("x", Path("/dev/full"))
    assert "connection" not in str(caught.value)
    assert "free some space on this machine" in str(caught.value)


# --- a signal that arrives where Python drops what is raised
# ---------------------------------------------------------


class Finalized:
    """A signal arrives while it is finalized."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        for _ in range(1000):
            time.sleep(0)


def finalize(number: int) -> None:
    with terminable():
        Finalized(number)
        time.sleep(10)


@pytest.mark.parametrize(
    "number, raised", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_in_a_finalizer_is_not_lost(
    number: int, raised: type[BaseException], capsys: pytest.CaptureFixture[str]
) -> None:
    """Python drops what is raised in a finalizer, and prints a traceback."""
    before = sys.unraisablehook
    with pytest.raises(raised):
        finalize(number)
    assert capsys.readouterr().err == ""
    assert sys.unraisablehook is before


def swallow(number: int) -> None:
    with terminable():
        with contextlib.suppress(BaseException):
            os.kill(os.getpid(), number)
            time.sleep(10)
        error = AttributeError("partially initialized module")
        error.add_note("measurements are kept")
        raise error


@pytest.mark.parametrize(
    "number, raised", [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)]
)
def test_a_signal_that_a_library_swallows_is_the_end_of_what_fails_after_it(
    number: int, raised: type[BaseException]
) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(raised) as caught:
        swallow(number)
    assert caught.value.__notes__ == ["measurements are kept"]
    assert signal.getsignal(signal.SIGINT) is before


def test_what_else_a_finalizer_raises_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError("lost")

    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: said.append(what.exc_value))
    with terminable():
        Failing()
    assert [str(error) for error in said] == ["lost"]
