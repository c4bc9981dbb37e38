"""Find the names of hosts and users in a set of texts, to recognise them wherever they stand."""

import functools
import re
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.analyzer.pseudonyms.coin import ENGLISH, PUBLIC_DOMAINS, PUBLIC_WORDS, is_pseudonym
from whyhang.analyzer.toml import table

_TABLE = table(__package__, "names.toml")

PIECES: dict[str, str] = _TABLE["pieces"]
"""What running text is taken apart into: the form of each kind, in order."""

_NO_NAME = re.compile("|".join(_TABLE["no-names"]))
_PUBLIC_SITE = re.compile("|".join(rf"(?:^|\.){re.escape(site)}$" for site in PUBLIC_DOMAINS))


@functools.cache
def _patterns(name: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of a list, with what a host or user looks like put in."""
    forms = _TABLE[name]
    for part in ("host", "user"):
        whole = f"(?P<{part}>{_TABLE['parts'][part]})"
        forms = [form.replace(f"@{part}@", whole) for form in forms]
    return tuple(map(re.compile, forms))


def _found(texts: Iterable[str], name: str, group: str) -> Iterator[str]:
    """Yield what a group of the patterns of a list finds in texts."""
    for text in texts:
        for pattern in _patterns(name):
            yield from (match[group] for match in pattern.finditer(text))


def hosts_in(texts: Sequence[str]) -> Iterator[str]:
    """Yield what texts call a host."""
    yield from (name.rstrip(".") for name in _found(texts, "hosts", "host") if is_host(name))
    for hosts in _found(texts, "lists-of-hosts", "list"):
        names = filter(is_host, expand(hosts))
        yield from (name for name in names if re.fullmatch(_TABLE["parts"]["host"], name))


def hosts_in_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Yield what sentences of a report, not quotes of evidence, tell of as a host."""
    names = (name.rstrip(".") for name in _found(texts, "hosts-in-sentences", "host"))
    return filter(is_host, names)


def users_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts call a user."""
    names = _found(texts, "users", "user")
    return (n for n in names if n.lower() not in PUBLIC_WORDS and not is_pseudonym(n))


def paths_with_blanks(texts: Iterable[str]) -> Iterator[str]:
    """Yield the paths that tracebacks and JSON name between quotes, where a blank is in them."""
    return _found(texts, "paths-with-blanks", "path")


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
