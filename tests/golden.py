"""Golden reports: what each test's evidence was diagnosed as, kept and compared.

Whatever report is made while a test runs (from a sample's bundle or from a document written by
hand) is compared with the one kept in ``golden/<module>.json.zst``. A change of words, of order
or of a confidence is seen at once, also where the test asks for something else. Who changes
one on purpose runs ``pytest -n 0 --golden-update`` and says in the commit why the new one is
better; what is kept of tests that are gone goes then, too (``test_golden.py`` names it).
``python tests/golden.py MODULE [TEST]`` prints what is kept.
"""

from __future__ import annotations

import difflib
import functools
import re
import sys
from collections.abc import Collection, Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard

FOLDER = Path(__file__).parent / "golden"
REPOSITORY = str(Path(__file__).parents[1])
MAX_DIFFERENCES = 60

_UNSET = (
    ',"owner":null',
    ',"step":null',
    ',"command":null',
    ',"run_id":null',
    ',"captured":null',
    ',"hosts":[]',
)
"""What few reports have: the owner of a finding is configured, a step is noted by the program."""

_WHEN = re.compile(r',"captured":\{[^{}]*\}')
"""When the processes were looked at, which is no diagnosis."""

Reports = dict[str, list[object]]
"""By the test's name: the reports that were made while it ran, in order."""


COLLECTED = pytest.StashKey[dict[str, set[str]]]()
"""The names of all tests by module, before any are deselected; none where single tests are run."""


@functools.cache
def kept(module: str) -> Reports:
    """Read the golden reports of one test module; none where it has no file."""
    path = FOLDER / f"{module}.json.zst"
    if not path.is_file():
        return {}
    data = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    return msgspec.json.decode(data, type=Reports)


def keep(module: str, reports: Reports) -> None:
    """Write the golden reports of one test module."""
    path = FOLDER / f"{module}.json.zst"
    if not reports:
        path.unlink(missing_ok=True)
        return
    FOLDER.mkdir(exist_ok=True)
    data = msgspec.json.encode(dict(sorted(reports.items())))
    path.write_bytes(zstandard.ZstdCompressor(level=19).compress(data))


def stale(module: str, names: Collection[str]) -> list[str]:
    """List the kept reports of a module whose tests are gone. ``names`` are those of its tests.

    A name may stand for all rows of a test that has parameters.
    """
    return [test for test in kept(module) if not {test, test.partition("[")[0]} & {*names}]


def modules() -> list[str]:
    """List the test modules of which reports are kept."""
    return sorted(path.name.removesuffix(".json.zst") for path in FOLDER.glob("*.json.zst"))


def tests_in(module: str) -> list[str]:
    """List the test functions in the source of a module; none where the module is gone."""
    source = FOLDER.with_name(f"{module}.py")
    text = source.read_text() if source.is_file() else ""
    return re.findall(r"^def (test_\w+)", text, re.MULTILINE)


def plain(report: object, temporary: Iterator[str] | list[str]) -> object:
    """Turn a report into what can be compared: paths of this run and this machine are masked."""
    text = msgspec.json.encode(report).decode()
    for unset in _UNSET:
        text = text.replace(unset, "")
    text = _WHEN.sub("", text)
    for path in sorted(temporary, key=len, reverse=True):
        text = text.replace(path, "<tmp>")
    text = text.replace(REPOSITORY, "<repository>")
    text = re.sub(r"/tmp/[\w./-]*pytest-of-[\w./-]*", "<tmp>", text)
    return msgspec.json.decode(text)


def differences(before: list[object], after: list[object]) -> str:
    """Show how reports differ, as a short diff of their lines."""
    old, new = (
        msgspec.json.format(msgspec.json.encode(each), indent=1).decode().splitlines()
        for each in (before, after)
    )
    lines = list(difflib.unified_diff(old, new, "golden", "now", lineterm="", n=2))
    more = len(lines) - MAX_DIFFERENCES
    return "\n".join([*lines[:MAX_DIFFERENCES], *([f"... {more} more lines"] if more > 0 else [])])


if __name__ == "__main__":
    for name, made in kept(sys.argv[1]).items():
        if len(sys.argv) < 3 or sys.argv[2] in name:
            print(name)
            print(msgspec.json.format(msgspec.json.encode(made), indent=1).decode())
