"""A report with pseudonyms in place of names, for every face alike."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from whyhang.analyzer.pseudonyms.names import hosts_in_sentences
from whyhang.analyzer.pseudonyms.running_text import Pseudonyms
from whyhang.analyzer.report import Report

_WORDS = """
    verdict signature category kind state role op tool_version launcher backend torch_version
    nccl_version function thread ranks use power
"""
_AS_THEY_ARE = frozenset(_WORDS.split())
"""Fields whose texts are words of whyhang, of PyTorch or of the code."""

_QUOTED = frozenset(["quote", "excerpt", "lines", "frames", "source", "file", "function"])
"""Fields in which evidence speaks, not whyhang."""

_FRAME = re.compile(r"(?P<function>.*) \((?P<file>[^()]*?)(?P<line>:\d+)?\)")


def with_pseudonyms(report: Report, names: Pseudonyms) -> Report:
    """Return the report as it may be shown to strangers."""
    plain = msgspec.to_builtins(report)
    texts = list(_texts(plain))
    names.learn(text for _, text in texts)
    names.add(hosts=hosts_in_sentences(text for field, text in texts if field not in _QUOTED))
    names.add(hosts={row.host for row in report.ranks if row.host} | set(report.job.hosts or ()))
    names.add_paths(_files(texts))
    return msgspec.convert(_each(plain, "", names), Report)


def _texts(value: Any, field: str = "") -> Iterator[tuple[str, str]]:
    """Yield all texts of plain data, each with the name of the field that it stands in."""
    if isinstance(value, str):
        yield field, value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, field)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _texts(each, key)


def _files(texts: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield the files that a report names in fields of their own."""
    for field, text in texts:
        if field in {"file", "source"}:
            yield text
        elif field == "frames" and (match := _FRAME.fullmatch(text)):
            yield match["file"]


def _each(value: Any, field: str, names: Pseudonyms) -> Any:
    if isinstance(value, str):
        return value if field in _AS_THEY_ARE else _replaced(value, field, names)
    if isinstance(value, list | tuple):
        return [_each(each, field, names) for each in value]
    if isinstance(value, dict):
        return {key: _each(each, key, names) for key, each in value.items()}
    return value


def _replaced(value: str, field: str, names: Pseudonyms) -> str:
    match field:
        case "source" | "file":
            return names.path(value)
        case "host" | "hosts":
            return names.host(value)
        case "frames":  # the function and the line stay
            if frame := _FRAME.fullmatch(value):
                return f"{frame['function']} ({names.path(frame['file'])}{frame['line'] or ''})"
        case "command":
            words = value.split(" ")
            return " ".join(names.path(w) if w.startswith("/") else names.text(w) for w in words)
    return names.text(value)
