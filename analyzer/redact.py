"""What may leave a process: environment values by allow-list, secrets in text by pattern.

A report may be pasted into an incident and a bundle sent to a vendor, so nothing is kept by
default. Of the environment, only the variables listed in ``redact.toml`` go on: where a rank stands
in its job, and the settings of torch, NCCL, Gloo, CUDA and the launcher. In command lines, source
excerpts and the output of tools, what looks like a secret is blanked, as listed there, too: values
with a telling name, passwords inside URLs, tokens by their form. A test holds these against the
plugins of detect-secrets, which is kept by others and knows further services.

What has no recognisable form is not found: a secret that is a bare word in a positional
argument stays. Nothing else is altered, so that quotes from evidence stay verbatim.
"""

import functools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record

BLANK = "[redacted]"

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|AUTH", re.IGNORECASE
)


def allowed(name: str) -> bool:
    """Return whether the value of this environment variable may be kept."""
    kept = _table().environment
    listed = name in kept.names or name.startswith(kept.families)
    return listed and _SECRET_NAME.search(name) is None


def redact_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what the allow-list names, in the order of names, without secrets in the values."""
    return {name: redact(environ[name]) for name in sorted(environ) if allowed(name)}


class _Secret(Record):
    """One form of secret, as ``redact.toml`` has it."""

    marks: tuple[str, ...] = ()
    form: str = ""
    regex: str = ""
    exact: bool = False
    multiline: bool = False
    dotall: bool = False


class _Environment(Record):
    """The variables whose values are kept: by their names, and whole families."""

    names: frozenset[str]
    families: tuple[str, ...]


class _Table(Record):
    environment: _Environment
    names: tuple[str, ...]
    parts: dict[str, str]
    secret: tuple[_Secret, ...]


@functools.cache
def _table() -> _Table:
    return toml.read(__package__, "redact.toml", _Table)


@functools.cache
def _marks() -> tuple[str, ...]:
    known = _table()
    marks = (mark for secret in known.secret for mark in secret.marks or known.names)
    return tuple(dict.fromkeys(marks))


@functools.cache
def _expression(secret: _Secret) -> re.Pattern[str]:
    """Return the expression of one form, with the parts that it names put in."""
    text = secret.regex or rf"(?<![A-Za-z0-9])(?P<secret>{secret.form})"
    while match := re.search(r"@(\w+)@", text):
        text = text.replace(match[0], _table().parts[match[1]])
    flags = re.RegexFlag(0) if secret.exact else re.IGNORECASE
    flags |= re.MULTILINE if secret.multiline else 0
    return re.compile(text, flags | re.DOTALL if secret.dotall else flags)


def redact(text: str) -> str:
    """Blank what looks like a secret; everything else stays as it is."""
    lower = text.lower()
    marks = {mark for mark in _marks() if mark in lower}
    if not marks:
        return text
    known = _table()
    for secret in known.secret:
        if not marks.isdisjoint(secret.marks or known.names):
            text = _expression(secret).sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    whole = match.group()
    return whole[: start - match.start()] + BLANK + whole[end - match.start() :]


def redact_texts(value: Any, change: Callable[[str], str] = redact) -> Any:
    """Do the same to each text in plain data: lists, tables, what stands in them."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [redact_texts(each, change) for each in value]
    if isinstance(value, dict):
        return {key: redact_texts(each, change) for key, each in value.items()}
    return value


def redact_bytes(data: bytes) -> bytes:
    """Do the same to the output of a tool; bytes that are no UTF-8 survive unchanged."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


MAX_COMMAND = 2000


def redact_command(arguments: Sequence[str]) -> str:
    """Join a command line as a shell would take it, without secrets, cut to a sane length."""
    clean = redact(shlex.join(arguments))
    return clean if len(clean) <= MAX_COMMAND else clean[: MAX_COMMAND - 1] + "…"
