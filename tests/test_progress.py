"""What a person sees who waits: bytes, rate and files, on a terminal and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import zstandard

from whyhang.analyzer.cli import main
from whyhang.analyzer.commands import progress_display
from whyhang.analyzer.commands.progress_display import Progress
from whyhang.collectors.files.meter import Meter, size


def test_a_meter_says_files_bytes_and_rate() -> None:
    """The words hold what has been done of what, how fast, and where."""
    meter = Meter()
    assert meter.words(time.monotonic()) == ""
    meter.start("reading", 4_000_000_000, files=12)
    meter.at(1_000_000_000, "logs/rank3.log", file=3)
    meter.count(200_000_000)

    words = meter.words(meter._begun + 2)

    assert words == "reading 3 of 12 files, 1.20 GB of 4.00 GB, 600 MB/s, logs/rank3.log"
    meter.stop()
    assert meter.words(time.monotonic()) == ""


@pytest.mark.parametrize(
    ("amount", "words"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.00 KB"), (45_600_000, "45.6 MB"), (10**13, "10.0 TB")],
)
def test_sizes_have_three_digits(amount: int, words: str) -> None:
    """A number of bytes is written in the unit in which people say it."""
    assert size(amount) == words


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Callable[[], str]:
    """Make standard error a terminal; give what was written to it."""
    ours, theirs = pty.openpty()
    stderr = os.fdopen(theirs, "w", encoding="utf-8")
    monkeypatch.setattr(progress_display, "sys", SimpleNamespace(stderr=stderr))
    monkeypatch.setattr(progress_display, "PATIENCE", 0.02)
    monkeypatch.setattr(progress_display, "EVERY", 0.02)
    monkeypatch.setenv("TERM", "xterm")

    def written() -> str:
        time.sleep(0.05)  # what was written comes through a little later
        os.set_blocking(ours, False)
        try:
            return os.read(ours, 1 << 16).decode()
        except BlockingIOError:
            return ""

    return written


def wait(until: Callable[[], bool]) -> None:
    """Wait for something that a signal brings about."""
    end = time.monotonic() + 5
    while not until() and time.monotonic() < end:
        time.sleep(0.01)


def test_a_long_run_is_shown_on_a_terminal(terminal: Callable[[], str]) -> None:
    """One line is written over and over, and gone at the end."""
    with Progress() as shown:
        shown.say("taking stacks")
        wait(lambda: shown._turns > 1)
        shown.meter.start("unpacking logs.tar.zst", 1_000_000)
        shown.meter.at(500_000, "x" * 500)
        turns = shown._turns
        wait(lambda: shown._turns > turns + 1)

    text = terminal()
    assert "| taking stacks\x1b[K" in text
    assert "unpacking logs.tar.zst, 500 KB of 1.00 MB" in text
    assert "\n" not in text
    assert max(map(len, text.split("\r"))) <= 90
    assert text.endswith("\r\x1b[J")
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0


def test_several_lines_are_written_over_together(terminal: Callable[[], str]) -> None:
    """Each time from the first line on; what a shorter text no longer covers goes."""
    with Progress() as shown:
        shown.say("looking: 1 of 3 hosts answered\nn1: connecting\nn2: at work")
        wait(lambda: shown._turns > 2)
        shown.say("looking: 3 of 3 hosts answered")
        turns = shown._turns
        wait(lambda: shown._turns > turns + 1)

    frames = terminal().replace("\r\n", "\n").split("\r")
    assert "| looking: 1 of 3 hosts answered\x1b[K" in frames[1]
    below = [frame for frame in frames if "n2: at work" in frame]
    assert all(frame.startswith("\x1b[2A") for frame in below[1:])
    first = next(frame for frame in frames if "3 of 3" in frame)
    assert first.startswith("\x1b[2A")
    assert first.endswith("\x1b[K\x1b[J")
    assert frames[-1] == "\x1b[J"


def test_a_short_run_shows_nothing(
    terminal: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is over before one can wonder does not flicker."""
    monkeypatch.setattr(progress_display, "PATIENCE", 30)
    with Progress() as shown:
        shown.say("taking stacks")

    assert terminal() == ""


def test_nothing_is_shown_in_a_pipe(capfd: pytest.CaptureFixture[str]) -> None:
    """Where standard error is no terminal, there is no timer and no output."""
    with Progress() as shown:
        shown.say("taking stacks")
        assert signal.getitimer(signal.ITIMER_REAL)[0] == 0

    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("packed", [False, True])
def test_standard_input_is_read(
    packed: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """``whyhang -`` reads a log from a pipe, also a compressed one."""
    data = b"[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
    data = zstandard.compress(data) if packed else data
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))

    assert main(["-", "--format", "json"]) == 0

    out = capsys.readouterr().out
    assert '"gpu-oom"' in out
    assert '"source": "stdin"' in out


def test_each_way_of_reading_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log's bytes are told while it is read, those of an archive while it is unpacked."""
    calls: list[tuple[str, int]] = []

    class Recorded(Meter):
        def start(self, doing: str, total: int | None = None, *, files: int = 0) -> None:
            super().start(doing, total, files=files)
            calls.append((doing, total or 0))

        def count(self, amount: int) -> None:
            super().count(amount)
            calls.append(("count", amount))

    monkeypatch.setattr(progress_display, "Meter", Recorded)
    text = b"nothing to see here\n" * 200_000
    (tmp_path / "a.log.zst").write_bytes(zstandard.compress(text))
    packed = (tmp_path / "a.log.zst").stat().st_size

    assert main([str(tmp_path)]) == 0

    assert ("unpacking a.log.zst", packed) in calls
    assert ("reading", len(text)) in calls
    assert sum(amount for what, amount in calls if what == "count") == len(text)
