"""The command line as someone meets it at night: any terminal, any mistake."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from whyhang.analyzer.cli import main
from whyhang.analyzer.errors import BundleError
from whyhang.collectors.files.bundle import Bundle, Manifest, check_name, write_bundle

WHYHANG = (
    sys.executable,
    "-c",
    "import sys; from whyhang.analyzer.cli import main; sys.exit(main(sys.argv[1:]))",
)
SAMPLE = str(Path(__file__).parent.parent / "samples" / "lock-cycle" / "bundle.tar.zst")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1"])
def test_a_terminal_without_utf8_gets_the_whole_page(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Signs that an encoding lacks are spelt in others, and end nothing."""
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding=encoding))
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert main([SAMPLE, "--format", "terminal"]) == 0
    text = written.getvalue().decode(encoding)
    assert "Do now" in text
    assert "torch 2." in text


def test_forced_colours_reach_the_pipe_and_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """FORCE_COLOR is for standard output; a .txt stays text."""
    file = tmp_path / "report.txt"
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert main([SAMPLE, "--format", "terminal", "-o", str(file)]) == 0
    assert "\x1b[" in capsys.readouterr().out
    assert "\x1b" not in file.read_text()


@pytest.mark.live
def test_a_closed_standard_output_is_no_error() -> None:
    """``>&-`` throws away what commands print, and nothing else."""
    each = "import sys; from whyhang.analyzer.cli import main; sys.exit(any(map(main, {})))"
    commands = [["demo"], ["explain"], ["schema"], ["doctor"], ["cards"], ["cards", "new"]]
    program = [sys.executable, "-c", each.format(commands)]
    done = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *program], capture_output=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.live
def test_a_closed_standard_error_costs_no_report() -> None:
    """``2>&-`` leaves the report as it is."""
    command = ["sh", "-c", '"$@" 2>&-', "sh", *WHYHANG, SAMPLE]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=False, timeout=60)
    assert done.returncode == 0
    assert done.stdout.startswith(b"**HUNG**")


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--looks", "none", "."], "a number between 1 and 100, not none"),
        (["--interval", "soon", "."], "between 0 and 3600 seconds, not soon"),
        (["--cards", "no/such/folder", "."], "there is no folder of cards at no/such/folder"),
        (["--nonsense"], "unrecognized arguments: --nonsense"),
        (["explain", "no-such-thing"], "no signature or category called"),
        (["demo", "no-such-thing"], "no sample called"),
        ([""], "an empty TARGET is neither a process nor a file"),
    ],
)
def test_a_mistake_in_the_arguments_is_two_lines(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong comes first, then what to do; no page of usage. The exit code is 2."""
    try:
        code = main(arguments)
    except SystemExit as ended:
        code = ended.code
    lines = capsys.readouterr().err.splitlines()
    assert code == 2
    assert len(lines) == 2
    assert says in lines[0]
    assert lines[1].startswith("  ")


def test_save_says_when_there_is_nothing_to_keep(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """--save without a PID keeps nothing, which is said behind the report."""
    assert main([SAMPLE, "--save", str(tmp_path / "kept")]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("**HUNG**")
    assert "no PID was named" in printed.err
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize("there", [True, False])
def test_half_a_bundle_is_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, there: bool
) -> None:
    """A disk that fills up leaves the folder as it was: absent, or empty."""
    folder = tmp_path / "bundle"
    if there:
        folder.mkdir()
    write = Path.write_bytes

    def full(path: Path, data: bytes) -> int:
        if path.name == "b.txt":
            raise OSError(28, "No space left on device")
        return write(path, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    files = {"host/a.txt": b"a", "host/b.txt": b"b"}
    with pytest.raises(BundleError, match="No space left"):
        write_bundle(Bundle(manifest=Manifest(), files=files), folder)
    assert folder.exists() == there
    assert not there or not list(folder.iterdir())


@pytest.mark.parametrize("name", ["job.zip", "full"])
def test_a_bundle_that_cannot_be_is_refused_before_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """What was taken of a job is not lost to a wrong name."""
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "old.log").touch()
    with pytest.raises(BundleError):
        check_name(tmp_path / name)
    monkeypatch.setattr(
        "whyhang.analyzer.commands.live.Capture", lambda *_, **__: pytest.fail("work was done")
    )
    assert main(["collect", str(os.getpid()), "-o", str(tmp_path / name)]) == 1


@pytest.mark.parametrize("pid", ["abc", "²", ""])
def test_what_is_no_pid_is_refused(
    pid: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also what only looks like a number."""
    assert main(["collect", pid, "-o", str(tmp_path / "b")]) == 2
    assert "is not a PID" in capsys.readouterr().err


def test_explain_marks_what_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    """A command stands on a line of its own behind a $; sentences are broken at 100 columns."""
    assert main(["explain", "init-master-no-answer"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  $ nc -zv -w 3 HOST PORT  # on the host of the rank" in lines
    assert max(len(line) for line in lines) <= 100


def test_torchruns_of_one_host_are_named_together(capsys: pytest.CaptureFixture[str]) -> None:
    """The sentence reads as one: pids behind one name."""
    samples = Path(SAMPLE).parent.parent
    assert main([str(samples / "agent-other-rdzv-id" / "bundle.tar.zst")]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first.endswith("than torchrun (pid 16189, pid 16190 on vm) (rdzv-id run-0).")


def test_a_mistake_of_whyhang_is_a_sentence() -> None:
    """Nobody reads a traceback at night; who reports it gets it by a variable."""
    program = (
        "import sys, whyhang.analyzer.cli as cli; from whyhang.__main__ import run\n"
        "def wrong(_): raise KeyError('rank')\n"
        "cli._with_command = wrong; sys.exit(run())"
    )
    command = [sys.executable, "-c", program]
    environ = {key: value for key, value in os.environ.items() if key != "WHYHANG_TRACEBACK"}
    done = subprocess.run(command, capture_output=True, env=environ, check=False)
    assert done.returncode == 1
    assert b"a mistake of its own in wrong" in done.stderr
    assert b"Traceback" not in done.stderr
    environ["WHYHANG_TRACEBACK"] = "1"
    done = subprocess.run(command, capture_output=True, env=environ, check=False)
    assert b"Traceback" in done.stderr


def test_what_was_taken_is_kept_where_reading_it_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A bundle is written also if the analysis of it is interrupted, and that is said."""
    from whyhang.analyzer.commands import live

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(live, "settled", interrupted)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        arguments = ["collect", str(child.pid), "-o", str(tmp_path / "b"), "--looks", "1"]
        assert main(arguments) == 130
    finally:
        child.kill()
        child.wait()
    assert (tmp_path / "b" / "manifest.json").is_file()
    assert f"what was taken so far is in {tmp_path / 'b'}" in capsys.readouterr().err


def test_nobody_is_sent_to_a_process_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Of a rank that was never started no stack can be taken."""
    samples = Path(SAMPLE).parent.parent
    assert main([str(samples / "init-rank-never-started" / "bundle.tar.zst")]) == 0
    printed = capsys.readouterr().out
    assert "py-spy dump" not in printed
    assert "`pgrep -af python # on its host: was rank 3 started?`" in printed


def test_a_place_that_takes_no_bundle_is_refused_before_work(tmp_path: Path) -> None:
    """Nothing is taken of a job only to be lost for the place it should go to."""
    (tmp_path / "file").touch()
    for name in (tmp_path / "file" / "b", tmp_path / "file" / "b.tar.zst"):
        with pytest.raises(BundleError, match="could not be written"):
            check_name(name)
    check_name(tmp_path / "new" / "b")
