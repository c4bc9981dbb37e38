"""The command line as a user types it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from whyhang.analyzer.cli import main
from whyhang.analyzer.commands import COMMANDS, load
from whyhang.analyzer.errors import BundleError
from whyhang.collectors.flight_recorder import places


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The docstring of a command's module is its help; the list of commands has its first line."""
    assert main([name, "--help"]) == 0
    text = (load(name).__doc__ or "").strip()
    assert text in capsys.readouterr().out
    assert text.splitlines()[0] == COMMANDS[name]


def test_without_arguments_and_dumps_a_hint_is_given(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A bare call says where it looked, and what else can be asked."""
    monkeypatch.setattr(places, "prefixes", lambda _: (f"{tmp_path}/nccl_trace_rank_",))
    monkeypatch.setenv("HOME", str(tmp_path))

    assert main([]) == 2
    error = capsys.readouterr().err
    assert "no recorder dumps are at ~/nccl_trace_rank_*" in error
    assert "whyhang PID" in error


def test_a_target_that_is_nothing_is_an_error_with_a_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A mistyped path gives one sentence and what to do, not a traceback."""
    assert main(["no-such-thing"]) == 2
    error = capsys.readouterr().err
    assert "neither a process nor a file" in error
    assert "Traceback" not in error


def test_a_pid_that_does_not_exist_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    """A process that is not there is said to be not there."""
    assert main(["4194300"]) == 2
    assert "4194300" in capsys.readouterr().err


def test_the_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    """``whyhang schema`` prints a JSON Schema."""
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$schema"]


def test_explain_lists_and_tells(capsys: pytest.CaptureFixture[str]) -> None:
    """Every signature is listed, and one of them can be read in full."""
    assert main(["explain"]) == 0
    assert "dataloader-blocked" in capsys.readouterr().out
    assert main(["explain", "dataloader-blocked"]) == 0
    assert "Do now" in capsys.readouterr().out
    assert main(["explain", "dataloader-bloked"]) == 2
    assert "dataloader-blocked" in capsys.readouterr().err


def test_a_category_called_as_one_of_its_signatures_lists_the_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The name is that of both; one that is a signature's alone lists nothing."""
    assert main(["explain", "collective-mismatch"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("collective-mismatch  (")
    assert "Other signatures of the category collective-mismatch: " in shown
    assert "root-differs" in shown
    assert main(["explain", "root-differs"]) == 0
    assert "Other signatures" not in capsys.readouterr().out


def test_an_export_of_stacks_that_are_not_there_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file is empty, which is no silent success; other formats hold more than stacks."""
    (tmp_path / "train.log").write_text("step 1 loss 0.5\n")
    out = tmp_path / "run.folded"
    assert main([str(tmp_path), "--format", "json", "-o", str(out)]) == 0
    assert not out.read_bytes()
    assert "there are no stacks in the evidence" in capsys.readouterr().err
    assert main([str(tmp_path), "--format", "speedscope"]) == 0
    assert "there are no stacks" in capsys.readouterr().err
    assert main([str(tmp_path), "--format", "dot"]) == 0
    assert capsys.readouterr().err == ""


def test_an_empty_folder_is_inconclusive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing to read is no crash, and the exit code says so when asked to."""
    assert main([str(tmp_path), "--format", "json", "--exit-code"]) == 4
    report = json.loads(capsys.readouterr().out)
    assert report["verdict"] == "inconclusive"
    assert report["gaps"][0].endswith("no file is in it.")
    assert report["gaps"][1].startswith("What would tell: ")


def test_reports_go_to_files_by_extension(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``-o`` may be repeated and picks the format by the extension."""
    (tmp_path / "in").mkdir()
    names = [tmp_path / "r.json", tmp_path / "r.md", tmp_path / "r.txt"]
    arguments = [word for name in names for word in ("-o", str(name))]

    assert main([str(tmp_path / "in"), *arguments]) == 0

    capsys.readouterr()
    assert json.loads(names[0].read_bytes())["schema_version"] == 1
    assert names[1].read_text().startswith("**")
    assert "INCONCLUSIVE" in names[2].read_text()


def test_an_unknown_extension_is_refused_before_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report format that does not exist is an error at once."""
    assert main([str(tmp_path), "-o", str(tmp_path / "r.pdf")]) == 2
    assert ".json" in capsys.readouterr().err


def test_help_imports_nothing_heavy() -> None:
    """``whyhang --help`` stays fast: no torch, rich, regex or hyperscan is imported for it."""
    code = (
        "import sys; from whyhang.analyzer.cli import main; main(['--help']); "
        "print([m for m in ('torch', 'rich', 'regex', 'hyperscan', 'zstandard') "
        "if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_a_diagnosis_imports_nothing_that_it_may_not_need() -> None:
    """Jinja is for a page alone; Ray takes a second and 100 MB, though its planner is there."""
    code = (
        "import sys, whyhang.analyzer.cli; from whyhang.analyzer.commands import diagnose, hosts; "
        "print([m for m in ('jinja2', 'ray', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
def test_a_full_disk_keeps_no_report_from_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A report file that cannot be written costs that file, not the report nor the next file."""
    (tmp_path / "in").mkdir()
    (tmp_path / "full.md").symlink_to("/dev/full")
    arguments = ["-o", str(tmp_path / "full.md"), "-o", str(tmp_path / "r.json")]

    assert main([str(tmp_path / "in"), *arguments]) == 1

    printed = capsys.readouterr()
    assert printed.out.startswith("**INCONCLUSIVE**")
    assert "cannot write" in printed.err
    assert (tmp_path / "r.json").is_file()


def test_folders_above_a_report_are_made_and_a_place_for_none_is_refused_before_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As for a bundle. What is in the way is said before anything is collected."""
    (tmp_path / "in").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "folder.md").mkdir()
    assert main([str(tmp_path / "in"), "-o", str(tmp_path / "new" / "er" / "r.json")]) == 0
    capsys.readouterr()
    assert main(["show", str(tmp_path / "new/er/r.json"), "-o", str(tmp_path / "a/r.md")]) == 0
    assert (tmp_path / "a" / "r.md").read_text().startswith("**INCONCLUSIVE**")
    capsys.readouterr()
    for name, says in {
        "file/r.md": f"{tmp_path / 'file'} is no folder",
        "folder.md": "it is a folder",
        f"{'x' * 300}.md": "File name too long",
    }.items():
        for command in ([str(tmp_path / "in")], ["diff", str(tmp_path), str(tmp_path)]):
            assert main([*command, "-o", str(tmp_path / name)]) == 1
            printed = capsys.readouterr()
            assert says in printed.err
            assert "Choose another place" in printed.err
            assert printed.out == ""


@pytest.mark.live
@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device of Linux")
@pytest.mark.parametrize(("end", "code"), [("> /dev/full", 1), (">&-", 0)])
def test_output_that_goes_nowhere_is_no_traceback(tmp_path: Path, end: str, code: int) -> None:
    """A full disk or a closed standard output is said in a sentence, or is no error."""
    program = "import sys; from whyhang.analyzer.cli import main; sys.exit(main(sys.argv[1:]))"
    done = subprocess.run(
        ["sh", "-c", f'"$0" -c "$1" "$2" {end}', sys.executable, program, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr
    assert ("-o FILE" in done.stderr) == (code == 1)


def test_a_bundle_that_cannot_be_kept_costs_no_diagnosis(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """``--save`` to a full disk: the report comes first, then the error."""
    from whyhang.analyzer.commands import live

    def full(*_: object, **__: object) -> None:
        raise BundleError("the bundle could not be written", "Name a place with room.")

    monkeypatch.setattr(live, "write_bundle", full)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    try:
        arguments = [str(child.pid), "--save", str(tmp_path / "b"), "--interval", "0.1"]
        assert main(arguments) == 1
    finally:
        child.kill()
        child.wait()
    printed = capsys.readouterr()
    assert printed.out.startswith("**")
    assert "could not be written" in printed.err


def test_bundles_of_two_runs_blame_no_rank(capsys: pytest.CaptureFixture[str]) -> None:
    """Processes of one rank that lived one after the other are two runs, not a double rank."""
    samples = Path(__file__).parent.parent / "samples"
    bundles = [str(samples / name / "bundle.tar.zst") for name in ("rank-died", "lock-cycle")]
    assert main([*bundles, "--format", "json"]) == 0
    decoded = json.loads(capsys.readouterr().out)["findings"]
    first = next(f for f in decoded if f["signature"] == "init-duplicate-rank")
    assert first["culprit_ranks"] is None
    assert "several runs" in first["explanation"]


def test_slips_are_answered_with_what_was_meant(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command misspelt, part of a signature's name, a report where evidence is asked for."""
    assert main(["watc", "123"]) == 2
    assert "Did you mean `whyhang watch`?" in capsys.readouterr().err
    assert main(["explain", "oom"]) == 2
    hint = capsys.readouterr().err.partition("Did you mean ")[2].partition("?")[0]
    assert hint
    assert all("oom" in name for name in hint.split(", ")[:2])
    report = tmp_path / "report.json"
    (tmp_path / "train.log").write_text("step 1 loss 2.5\n")
    assert main([str(tmp_path / "train.log"), "-o", str(report)]) == 0
    capsys.readouterr()
    assert main([str(report)]) == 2
    assert f"whyhang show {report}" in capsys.readouterr().err
    assert main([str(tmp_path / "train.log"), "--save", str(tmp_path / "b")]) == 1


@pytest.mark.parametrize("module", ["threading", "whyhang.analyzer.cli", "hyperscan"])
def test_ctrl_c_while_it_is_starting(module: str) -> None:
    """Its imports take longer than many a finger; in the midst of one, Hyperscan would crash."""
    program = f"""
import os, signal, sys

class Finger:
    def find_spec(self, name, *_):
        if name == "{module}":
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Finger())
sys.modules.pop("{module}", None)
from whyhang.__main__ import run
sys.argv = ["whyhang", "/nothing"]
sys.exit(run())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert (done.returncode, done.stderr.partition(";")[0]) == (130, "whyhang: interrupted")


@pytest.mark.live
@pytest.mark.parametrize(("number", "code"), [("SIGINT", 130), ("SIGTERM", 0)])
def test_a_signal_that_comes_in_a_destructor_is_not_lost(number: str, code: int) -> None:
    """Python drops what is raised there, as it did with Ctrl-C while patterns were compiled."""
    program = f"""
import os, signal, sys, time
import whyhang.__main__ as entry
from whyhang.analyzer import cli
from whyhang.analyzer.commands.watch import _until_terminated

class Pattern:
    def __del__(self):
        os.kill(os.getpid(), signal.{number})
        for _ in range(1000):
            pass

def main():
    with _until_terminated():
        Pattern()
        time.sleep(30)
        return 1
    return 0

cli.main = main
sys.exit(entry.run())
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=20, check=False
    )
    assert done.returncode == code, done.stderr
    assert "ignored" not in done.stderr


@pytest.mark.live
def test_a_watch_ends_at_a_ctrl_c_that_a_library_has_swallowed(tmp_path: Path) -> None:
    """Wherever it was lost, it counts before the next look."""
    program = """
import os, signal, sys
import whyhang.__main__ as entry
from whyhang.analyzer.commands import watch

def looks(*given, **named):
    try:
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1000):
            pass
    except BaseException:
        pass
    return found(*given, **named)

found = watch.looks_at
watch.looks_at = looks
sys.argv = ["whyhang", "watch", sys.argv[1]]
sys.exit(entry.run())
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        capture_output=True, text=True, timeout=20, check=False,
    )  # fmt: skip
    assert done.returncode == 130, done.stderr
    assert "interrupted" in done.stderr
