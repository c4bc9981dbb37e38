"""Read a report that was written as JSON, of this version of whyhang or of an older one.

Such a file may come from anywhere: it is decoded into the types of ``report.py`` and nothing else,
and what those cannot hold, or what would lead a face astray, is an error that names the place.
"""

import json
import re
import shlex
import sys
from pathlib import Path
from typing import Any

import msgspec

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import counted
from whyhang.analyzer.report import SCHEMA_VERSION, Report

MAX_BYTES = 1 << 30  # a report of 100,000 ranks has some tens of megabytes
_MARK = re.compile(r"[ \t\r\n]*[,:]?[ \t\r\n]*")
_ONCE_MORE = "Copy it again, or diagnose the evidence that it was made from once more."
MAX_QUOTE = 300  # characters of a damaged report that are quoted
_BOM = b"\xef\xbb\xbf"


def load(path: str) -> Report:
    """Read the report in a file; ``-`` is standard input. Raises ``TargetError``."""
    data = _content(path)
    shown = _STDIN if path == "-" else path
    if not data.strip():
        raise TargetError(f"{shown} is empty", _ONCE_MORE)
    document = _decoded(shown, data, dict[str, Any])
    if "schema_version" not in document or "verdict" not in document:
        raise TargetError(
            f"{shown} is JSON, but no report of whyhang: it has no schema_version and verdict",
            _evidence(path),
        )
    version = document["schema_version"]
    if version != SCHEMA_VERSION:
        wrote = str(document.get("tool_version", ""))[:40]
        raise TargetError(
            f"{shown} has schema_version {str(version)[:20]}, this whyhang reads {SCHEMA_VERSION}",
            f"Upgrade whyhang{f' to {wrote} or newer' if wrote else ''}: that wrote it.",
        )
    report: Report = _decoded(shown, data, Report)
    _check_references(shown, report)
    return report


def is_saved_report(path: str) -> bool:
    """Return whether a file looks like a report by its first bytes, damaged or not."""
    try:
        if not Path(path).is_file():
            return False
        with Path(path).open("rb") as file:
            head = file.read(4096).removeprefix(_BOM).lstrip()
    except OSError:
        return False
    return head.startswith(b"{") and b'"verdict"' in head and b'"headline"' in head


_STDIN = "standard input"


def _evidence(path: str) -> str:
    target = "-" if path == _STDIN else shlex.quote(path)
    return f"A report is what `-o FILE.json` writes; evidence is diagnosed with `whyhang {target}`."


def _content(path: str) -> bytes:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        elif Path(path).is_file():
            with Path(path).open("rb") as file:
                data = file.read(MAX_BYTES + 1)
        elif Path(path).is_dir():
            raise TargetError(f"{path} is no file", _evidence(path))
        elif Path(path).exists():
            raise TargetError(
                f"{path} is no file",
                f"If it is a pipe, give its content as standard input: whyhang show - < {path}",
            )
        else:
            raise TargetError(f"there is no report at {path}", "Check the path.")
    except OSError as error:
        raise TargetError(
            f"{path} cannot be read: {error.strerror}", "Check its rights."
        ) from error
    if len(data) > MAX_BYTES:
        raise TargetError(f"{path} is larger than any report", _evidence(path))
    return data.removeprefix(_BOM)


def _decoded(shown: str, data: bytes, wanted: Any) -> Any:
    """Decode JSON as a type. What breaks in the middle is told from what never was JSON."""
    try:
        return msgspec.json.decode(data, type=wanted)
    except msgspec.ValidationError as error:
        if wanted is Report:
            raise _damaged(shown, str(error)) from error
        raise TargetError(f"{shown} is no report of whyhang", _evidence(shown)) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        if data.lstrip()[:1] == b"{" and b'"verdict"' in data[:4096]:
            if "truncated" in str(error):
                raise _cut_off(shown, data) from error
            raise _damaged(shown, str(error)) from error
        raise TargetError(
            f"{shown} is no report of whyhang: it is no JSON", _evidence(shown)
        ) from error


def _damaged(shown: str, why: str) -> TargetError:
    return TargetError(f"the report {shown} is damaged: {why[:200]}", _ONCE_MORE)


def _cut_off(shown: str, data: bytes) -> TargetError:
    """Say what a report that ends in the middle still tells."""
    fields, where = _whole_fields(data.decode("utf-8", "replace"))
    verdict, headline = (
        " ".join(str(fields.get(name, "")).split())[:MAX_QUOTE] for name in ("verdict", "headline")
    )
    tells = f". It says {verdict.upper()}: {headline}" if headline else ""
    return TargetError(
        f"the report {shown} is cut off after {counted(len(data), 'byte')}, {where}{tells}",
        f"{_ONCE_MORE} The disk may have been full where it was written.",
    )


def _whole_fields(text: str) -> tuple[dict[str, Any], str]:
    """Return the fields of an object that are whole, and in words where its text ends."""
    fields: dict[str, Any] = {}
    read, name = json.JSONDecoder().raw_decode, ""
    at = text.index("{") + 1
    try:
        while isinstance(name, str):
            name, at = read(text, _behind_mark(text, at))
            at = _behind_mark(text, at)
            fields[name], at = read(text, at)
    except (ValueError, TypeError, RecursionError):  # it ends here
        pass
    if not isinstance(name, str) or name in fields or not name.isidentifier():
        return fields, "between its fields"
    whole, at = 0, at + 1
    try:
        while text[at - 1 : at] == "[" or whole:
            _, at = read(text, _behind_mark(text, at))
            whole += 1
    except (ValueError, RecursionError):
        pass
    return fields, f"in its {name}" + (f", of which {whole:,} can be read" if whole else "")


def _behind_mark(text: str, at: int) -> int:
    """Return where the next value begins: behind white space and a comma or colon."""
    match = _MARK.match(text, at)
    return at if match is None else match.end()


def _check_references(shown: str, report: Report) -> None:
    """Hold each index of a report against what it points into."""
    findings, story, nodes = len(report.findings), len(report.story), len(report.waits.nodes)
    pointers = [
        (f"findings[{n}].caused_by", finding.caused_by, findings)
        for n, finding in enumerate(report.findings)
    ]
    pointers += [(f"story[{n}].finding", e.finding, findings) for n, e in enumerate(report.story)]
    for n, lane in enumerate(report.timeline.lanes):
        pointers += [(f"timeline.lanes[{n}].events", event, story) for event in lane.events]
    for n, edge in enumerate(report.waits.edges):
        pointers += [(f"waits.edges[{n}]", index, nodes) for index in (edge.source, edge.target)]
    for name, index, count in pointers:
        if index is not None and not 0 <= index < count:
            raise _damaged(shown, f"{name} points at {index}, and there are {count}")
