"""Find the names of hosts and users in a set of texts, to recognise them wherever they stand."""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.analyzer.pseudonyms.coin import ENGLISH, PUBLIC_DOMAINS, PUBLIC_WORDS, is_pseudonym
from whyhang.analyzer.toml import table

_TABLE = table(__package__, "names.toml")


def _compiled(name: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a list, with what a host or user looks like put in."""
    forms = _TABLE[name] if isinstance(_TABLE[name], list) else [_TABLE[name]]
    for part in ("host", "user"):
        whole = f"(?P<{part}>{_TABLE['parts'][part]})"
        forms = [form.replace(f"@{part}@", whole) for form in forms]
    return tuple(map(re.compile, forms))


_HOSTS, _HOSTS_IN_SENTENCES, _USERS = map(_compiled, ("hosts", "hosts-in-sentences", "users"))
(_LIST,), (_BLANK,) = map(_compiled, ("list-of-hosts", "path-with-blank"))
_FORM = re.compile(_TABLE["parts"]["host"])
PIECES: dict[str, str] = _TABLE["pieces"]
"""What running text is taken apart into: the form of each kind, in the order they are tried."""

_NO_NAME = re.compile("|".join(_TABLE["no-names"]))
_PUBLIC_SITE = re.compile("|".join(rf"(?:^|\.){re.escape(site)}$" for site in PUBLIC_DOMAINS))


def hosts_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts call a host."""
    for text in texts:
        for pattern in _HOSTS:
            yield from (m["host"].rstrip(".") for m in pattern.finditer(text) if is_host(m["host"]))
        for match in _LIST.finditer(text):
            for name in expand(match["list"]):
                if is_host(name) and _FORM.fullmatch(name):
                    yield name


def hosts_in_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Yield what sentences of a report, not quotes of evidence, tell of as a host."""
    for text in texts:
        for pattern in _HOSTS_IN_SENTENCES:
            names = (match["host"].rstrip(".") for match in pattern.finditer(text))
            yield from filter(is_host, names)


def users_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts call a user."""
    for text in texts:
        for pattern in _USERS:
            for match in pattern.finditer(text):
                if match["user"].lower() not in PUBLIC_WORDS and not is_pseudonym(match["user"]):
                    yield match["user"]


def paths_with_blanks(texts: Iterable[str]) -> Iterator[str]:
    """Yield the paths that tracebacks and JSON name between quotes, where a blank is in them."""
    for text in texts:
        yield from (match["path"] for match in _BLANK.finditer(text))


def is_host(name: str) -> bool:
    """Return whether a word can be the name of one host, and not one of everybody's."""
    return (
        len(name) > 1
        and name.lower() not in PUBLIC_WORDS
        and name.lower() not in ENGLISH
        and not _PUBLIC_SITE.search(name)
        and not is_pseudonym(name.partition(".")[0])
        and not _NO_NAME.fullmatch(name)
    )
