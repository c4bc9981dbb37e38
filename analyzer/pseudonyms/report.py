"""A report with pseudonyms in place of names, for every face alike."""

import re
from collections.abc import Callable, Iterator
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
    names.learn(_texts(plain))
    names.add(hosts=hosts_in_sentences(_texts(plain, without=_QUOTED)))
    hosts = {row.host for row in report.ranks if row.host} | set(report.job.hosts or ())
    names.add(hosts=hosts)
    names.add_paths(_files(plain))
    return msgspec.convert(_each(plain, "", names), Report)


def _texts(value: Any, without: frozenset[str] = frozenset()) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _texts(each, without)
    elif isinstance(value, dict):
        for key, each in value.items():
            if key not in without:
                yield from _texts(each, without)


def _files(value: Any, field: str = "") -> Iterator[str]:
    """Yield the files that a report names in fields of their own."""
    if isinstance(value, str) and field in {"file", "source"}:
        yield value
    elif isinstance(value, str) and field == "frames" and (match := _FRAME.fullmatch(value)):
        yield match["file"]
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _files(each, field)
    elif isinstance(value, dict):
        for key, each in value.items():
            yield from _files(each, key)


def _each(value: Any, field: str, names: Pseudonyms) -> Any:
    if isinstance(value, str):
        return value if field in _AS_THEY_ARE else _REPLACED.get(field, _text)(names, value)
    if isinstance(value, list | tuple):
        return [_each(each, field, names) for each in value]
    if isinstance(value, dict):
        return {key: _each(each, key, names) for key, each in value.items()}
    return value


def _text(names: Pseudonyms, value: str) -> str:
    return names.text(value)


def _frame(names: Pseudonyms, value: str) -> str:
    """Replace the file of a frame; the function and the line stay."""
    match = _FRAME.fullmatch(value)
    if match is None:
        return names.text(value)
    return f"{match['function']} ({names.path(match['file'])}{match['line'] or ''})"


def _command(names: Pseudonyms, value: str) -> str:
    """Replace the paths of a command line, and what else names somebody."""
    words = value.split(" ")
    return " ".join(names.path(w) if w.startswith("/") else names.text(w) for w in words)


_REPLACED: dict[str, Callable[[Pseudonyms, str], str]] = {
    "source": lambda names, value: names.path(value),
    "file": lambda names, value: names.path(value),
    "host": lambda names, value: names.host(value),
    "hosts": lambda names, value: names.host(value),
    "frames": _frame,
    "command": _command,
}
