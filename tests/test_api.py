"""The functions that programs call: their names and parameters are promised."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import msgspec
import pytest

import whyhang
from whyhang.analyzer.report import to_json
from whyhang.samples.harness import scenario

BUNDLE = scenario.samples()["stopped-rank"].bundle

PROMISED = {
    "diagnose": "(targets, *, cards, save, **options)",
    "collect": "(pid, bundle, **options)",
    "watch": "(target, *, every, stalled_for, cards, **options)",
    "heartbeat": "(step)",
}


def test_names_and_parameters_stay() -> None:
    """Adding is fine, with a default; what is here may not go within a major version."""
    for name, promised in PROMISED.items():
        parameters = inspect.signature(getattr(whyhang, name)).parameters.values()
        bare = [p.replace(annotation=p.empty, default=p.empty) for p in parameters]
        assert str(inspect.Signature(bare)) == promised
    assert set(PROMISED) < set(whyhang.__all__) <= set(dir(whyhang))
    assert all(getattr(whyhang, name).__doc__ for name in whyhang.__all__)
    with pytest.raises(AttributeError):
        _ = whyhang.nothing  # type: ignore[attr-defined]


def test_importing_it_costs_nothing() -> None:
    """A training loop imports it for its heartbeat."""
    script = "import sys; old = set(sys.modules); import whyhang; print(*set(sys.modules) - old)"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert set(done.stdout.split()) <= {"whyhang", "__future__"}


def test_a_path_is_diagnosed(capfd: pytest.CaptureFixture[str]) -> None:
    """The report is the one of the command line; nothing is printed."""
    report = whyhang.diagnose(BUNDLE)

    assert report.verdict == "hung"
    assert isinstance(report.findings[0], whyhang.Finding)
    assert msgspec.json.decode(whyhang.to_json(report), type=whyhang.Report) == report
    assert capfd.readouterr() == ("", "")
    assert to_json(whyhang.diagnose([str(BUNDLE)])) == to_json(report)


def test_secrets_do_not_leave(tmp_path: Path) -> None:
    """What is returned has gone through the gate."""
    (tmp_path / "rank0.log").write_text(
        "Traceback (most recent call last):\n"
        '  File "/w/train.py", line 9, in <module>\n    main()\n'
        "RuntimeError: login failed: password=hunter2secret\n"
    )

    assert b"hunter2secret" not in to_json(whyhang.diagnose(tmp_path))


def test_mistakes_are_raised() -> None:
    """As errors with a message and a remedy, or as Python's own for what is no argument."""
    for targets in ("/no/such/place", []):
        with pytest.raises(whyhang.TargetError) as raised:
            whyhang.diagnose(targets)
        assert raised.value.remedy
    with pytest.raises(whyhang.TargetError):
        whyhang.diagnose(1 << 22)
    with pytest.raises(TypeError, match="no option lokks"):
        whyhang.diagnose(BUNDLE, lokks=3)
    with pytest.raises(whyhang.TargetError):
        whyhang.watch("/no/such/place")


def test_a_folder_is_followed(tmp_path: Path) -> None:
    """Events come as they happen; a hang has a report."""
    log = tmp_path / "rank0.log"
    log.write_text("step 1\n")
    happened = whyhang.watch(tmp_path, every=0.1, stalled_for=0.4)
    stop = threading.Event()

    def write() -> None:
        for step in range(2, 8):
            with log.open("a") as file:
                file.write(f"epoch 1 step {step} loss 0.5\n")
            time.sleep(0.1)
        stop.set()

    threading.Thread(target=write).start()
    event = next(happened)

    assert stop.is_set()
    assert event.kind == "hang"
    assert event.report is not None


@pytest.mark.live
def test_a_process_is_collected_and_diagnosed(tmp_path: Path) -> None:
    """From any thread, and the bundle gives the same."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    made: list[object] = []
    try:
        time.sleep(0.5)
        bundle = whyhang.collect(process.pid, tmp_path / "bundle", looks=1, no_store=True)
        work = threading.Thread(target=lambda: made.append(whyhang.diagnose(process.pid)))
        work.start()
        work.join(60)
    finally:
        process.kill()
        process.communicate()

    [report] = made
    assert isinstance(report, whyhang.Report)
    assert report.ranks
    assert (bundle / "manifest.json").is_file()
    assert whyhang.diagnose(os.fspath(bundle)).headline == report.headline


@pytest.mark.parametrize(
    ("target", "options", "error"),
    [
        ([True], {}, TypeError),
        (None, {}, TypeError),
        ([None], {}, TypeError),
        (BUNDLE, {"looks": "x"}, TypeError),
        (BUNDLE, {"looks": 0}, ValueError),
        (BUNDLE, {"native": "maybe"}, ValueError),
        (BUNDLE, {"no_store": 1}, TypeError),
    ],
)
def test_arguments_that_are_none_are_refused(
    target: object, options: dict[str, object], error: type[Exception]
) -> None:
    """With a sentence that names the value, before anything is looked at."""
    with pytest.raises(error, match=r"is a PID|must be"):
        whyhang.diagnose(target, **options)  # type: ignore[arg-type]


def test_a_program_that_gives_itself_is_told_so(tmp_path: Path) -> None:
    """Who looks is not among the processes that are looked at."""
    with pytest.raises(whyhang.TargetError, match="does not look into itself"):
        whyhang.collect(os.getpid(), tmp_path / "own.tar.zst")
