"""What the README and the docs say can be typed in and is true: commands, links, counts."""

from __future__ import annotations

import io
import re
import shlex
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import zstandard

from whyhang import signatures
from whyhang.analyzer.cli import main, parser
from whyhang.analyzer.commands import COMMANDS
from whyhang.samples.harness import scenario

pytestmark = pytest.mark.repo

ROOT = Path(__file__).parent.parent
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)")
SHELLS = {"", "sh", "bash", "shell", "console"}
ELSEWHERE = ("--slurm", "--hosts", "--k8s", "--ray", "--on")
"""Options that reach other hosts: their own tests run them, here they are only understood."""
UNTIL_STOPPED = ("watch", "mcp")
"""Commands that go on until they are stopped: likewise."""


def commands() -> list[str]:
    """Return each call of whyhang in the pages, of blocks and of sentences, without its comment."""
    lines: list[str] = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for language, block in FENCE.findall(text):
            if language in SHELLS:
                lines += block.replace("\\\n", " ").splitlines()
        lines += re.findall(r"`(whyhang [^`\n]*)`", FENCE.sub("", text))
    calls = [line.removeprefix("$ ") for line in lines if re.match(r"(\$ )?whyhang( |$)", line)]
    return sorted(
        {
            " ".join(shlex.split(line.partition(" >")[0], comments=True, posix=False))
            for line in calls
            if not set("[|…") & set(line)  # a table of what a command takes
        }
    )


def is_only_understood(command: str) -> bool:
    """Return whether a command is parsed, not run."""
    words = command.split()
    if any("://" in word or word.startswith("/shared/") for word in words):
        return True  # tests/test_remote.py and test_many_hosts.py read such targets
    return any(word in ELSEWHERE for word in words) or words[1:2] in [[x] for x in UNTIL_STOPPED]


def filled_in(command: str, places: dict[str, str]) -> list[str]:
    """Return the arguments of a command with its words in capitals replaced."""
    words = shlex.split(command)[1:]
    return [places.get(word.partition("...")[0], word) for word in words]


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Say what the words in capitals stand for; all calls read one recording, its dumps unpacked.

    ``DUMPS`` is where torch would have written them.
    """
    folder = tmp_path_factory.mktemp("recorded")
    bundle = scenario.samples()["fr-other-shape"].bundle
    with tarfile.open(fileobj=io.BytesIO(zstandard.decompress(bundle.read_bytes()))) as archive:
        for member in archive.getmembers():
            content = archive.extractfile(member)
            if content and "trace_rank_" in member.name:
                rank = member.name.rpartition("_")[2]
                (folder / f"rank_{rank}").write_bytes(content.read())
    report = folder / "before.json"
    assert main([str(bundle), "-o", str(report), "--format", "json"]) == 0
    card = next((ROOT / "signatures").glob("*.toml"))
    return {
        **dict.fromkeys(("LOGDIR", "DIR", "BUNDLE", "TARGET", "PATH"), str(bundle)),
        **dict.fromkeys(("REPORT.json", "A", "B"), str(report)),
        **dict.fromkeys(("FILE", "signatures/*.toml"), str(card)),
        "NAME": "all-completed",
        "DUMPS": str(folder / "rank_"),
    }


@pytest.fixture
def places(
    recorded: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """Make a folder to work in, with no configuration but what a call finds there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TORCH_FR_DUMP_TEMP_FILE", recorded["DUMPS"])
    return recorded


OFFLINE = [
    each for each in commands() if not is_only_understood(each) and "PID" not in each.split()
]


@pytest.mark.parametrize("command", OFFLINE)
def test_a_command_of_the_docs_runs(
    command: str, places: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is typed in as it stands, with a recording for the words in capitals."""
    arguments = filled_in(command, places)

    assert main(arguments) == (3 if "--exit-code" in arguments else 0), capsys.readouterr().err


@pytest.mark.live
@pytest.mark.parametrize(
    "command",
    [each for each in commands() if "PID" in each.split() and not is_only_understood(each)],
)
def test_a_command_on_a_process_runs(
    command: str, places: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """So is what looks at a process: here one that waits for its input."""
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        places = {**places, "PID": str(process.pid), "BUNDLE": str(tmp_path / "new")}
        arguments = filled_in(command, places)
        code = main(arguments)
    finally:
        process.kill()
        process.communicate()

    assert code in ({3, 4} if "--exit-code" in arguments else {0}), capsys.readouterr().err


@pytest.mark.parametrize("command", [each for each in commands() if is_only_understood(each)])
def test_a_command_on_other_hosts_is_understood(command: str) -> None:
    """Its options exist and take what the docs give them."""
    words = filled_in(command, {"PID": "1"})
    words = words if words[0] in COMMANDS else ["diagnose", *words]

    parser(words[0]).parse_args(words)


def test_there_are_commands() -> None:
    """The search above finds something, or it proves nothing."""
    assert len(commands()) > 10


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """Each file that a page links to exists; those that are made exist on the site."""
    made = {"commands.md", "schema.md", "signatures/index.md"}
    broken = [
        link
        for link in LINK.findall(page.read_text(encoding="utf-8"))
        if "://" not in link and link not in made and not (page.parent / link).exists()
    ]

    assert broken == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_a_page_names_exists(page: Path) -> None:
    """Benchmarks and targets of make that a page names are there."""
    text = page.read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

    scripts = re.findall(r"python ((?:benchmarks|tests|docs)/\w+\.py)", text)
    assert [each for each in scripts if not (ROOT / each).is_file()] == []
    assert set(re.findall(r"^make (\w+)|`make (\w+)", text, re.MULTILINE)) <= {
        pair for name in targets for pair in ((name, ""), ("", name))
    }


def test_the_readme_counts_right() -> None:
    """Its figures are those of the code; signatures by hundreds, jobs by tens."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    known = signatures.load()

    assert (
        f"over {len(known) // 100}00 signatures of {len({each.category for each in known})} "
        f"categories; over {len(scenario.samples()) // 10}0 jobs"
    ) in text
    assert len(text.splitlines()) < 150


@pytest.mark.live
def test_the_site_builds(tmp_path: Path) -> None:
    """MkDocs builds it in strict mode: no broken link, no page that nobody links to."""
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", tmp_path / "site"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    pages = {path.parent.name for path in (tmp_path / "site" / "signatures").glob("*/index.html")}
    assert pages == {each.id for each in signatures.load()}
