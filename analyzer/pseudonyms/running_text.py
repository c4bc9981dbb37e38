"""Pseudonyms in running text: one pass, in which each piece is at most one kind of name."""

import functools
import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.analyzer.pseudonyms.addresses import ipv4, ipv6, mac
from whyhang.analyzer.pseudonyms.coin import PUBLIC_SITES, Coin, is_pseudonym
from whyhang.analyzer.pseudonyms.names import PIECES, hosts_in, is_host, paths_with_blanks, users_in
from whyhang.analyzer.pseudonyms.paths import component, path

_PARTS = re.compile(r"[^\W_]+(?:-[^\W_]+)*")
_SMALL = re.compile(r"[^\W_]+")
_AUTHORITY = re.compile(r"(?P<user>[^@]*@)?(?P<host>\[[^\]]*\]|[^:]*)(?P<port>:\d+)?")
_PIECES = re.compile(
    "|".join(f"(?P<{kind}>{form})" for kind, form in PIECES.items()), re.IGNORECASE
)

MOST_BLANKS = 2000  # paths with blanks, and their ends, that are recognised in text


def _ends(path: str) -> Iterator[str]:
    """Yield a path and its ends at folders, as long as a blank is in them."""
    parts = path.split("/")
    ends = ("/".join(parts[at:]) for at in range(len(parts)))
    return (end for end in ends if " " in end.strip())


class Pseudonyms:
    """Replaces names in texts, under one key.

    ``hide`` are words to replace wherever they stand, ``keep`` words that are never replaced. What
    ``learn`` was shown is recognised.
    """

    def __init__(
        self,
        key: bytes,
        *,
        hide: Iterable[str] = (),
        keep: Iterable[str] = (),
    ) -> None:
        self._keep = {word.lower() for word in keep}
        self._coin = Coin(key, self._keep)
        self._names: dict[str, str] = {}
        self._users: frozenset[str] = frozenset()
        self._blanks: set[str] = set()
        self._with_blanks: re.Pattern[str] | None = None
        self._hide = {word.lower(): self._coin.word(word) for word in hide if word}
        self.add()

    def learn(self, texts: Iterable[str]) -> None:
        """Look for names in all texts that belong together, before any is replaced."""
        texts = list(texts)
        self.add(hosts_in(texts), users_in(texts))
        self.add_paths(paths_with_blanks(texts))

    def add_paths(self, paths: Iterable[str]) -> None:
        """Recognise these paths wherever they stand; only those with blanks need that."""
        self._blanks |= {end for path in set(paths) if " " in path for end in _ends(path)}
        chosen = sorted(self._blanks, key=len, reverse=True)[:MOST_BLANKS]
        self._with_blanks = re.compile("|".join(map(re.escape, chosen))) if chosen else None
        self.text = functools.lru_cache(1 << 15)(self._text)

    def add(self, hosts: Iterable[str] = (), users: Iterable[str] = ()) -> None:
        """Recognise these names from now on."""
        for user in users:
            if user.lower() not in self._keep:
                self._names.setdefault(user.lower(), self._coin.named("user", user))
        for host in set(hosts):
            first = host.partition(".")[0]
            for name in (host, first):
                if is_host(name) and name.lower() not in self._keep:
                    self._names[name.lower()] = self.host(name)
        self._users = frozenset(n for n, made in self._names.items() if made.startswith("user-"))
        self.text = functools.lru_cache(1 << 15)(self._text)

    def host(self, name: str) -> str:
        """Return what a host is called: its name, and that of the network it is in."""
        if name.lower() in self._keep or name.lower() in {"localhost", "localhost.localdomain"}:
            return name
        if re.fullmatch(PIECES["v4"], name):
            return ipv4(self._coin, name)
        if ":" in name:
            return ipv6(self._coin, name)
        first, dot, network = name.partition(".")
        made = self._coin.named("host", first)
        if network.startswith("net-"):
            return name if is_pseudonym(first) else f"{made}.{network}"
        return f"{made}.{self._coin.named('net', network)}" if dot else made

    def path(self, text: str) -> str:
        """Return a path with its words replaced; names of hosts in it are those of the hosts."""
        if not self._names and not self._hide:
            return path(self._coin, text)
        return path(self._coin, _PARTS.sub(self._named_part, text), self._users)

    def _text(self, text: str) -> str:
        if self._with_blanks is not None:
            text = self._with_blanks.sub(lambda known: self.path(known[0]), text)
        return _PIECES.sub(self._piece, text)

    def _piece(self, match: re.Match[str]) -> str:
        whole = match[0]
        match match.lastgroup:
            case "url":
                return self._url(whole)
            case "mail":
                user, _, host = whole.rpartition("@")
                made = user if user.isdecimal() else self._coin.named("user", user)
                return f"{made}@{self.host(host)}"
            case "mac":
                return mac(self._coin, whole)
            case "v6":
                return ipv6(self._coin, whole)
            case "v4":
                return ipv4(self._coin, whole)
            case "list":  # the hosts of a Slurm list one by one; brackets that hold none stay
                listed = expand(whole)
                known = any(name.lower() in self._names for name in listed)
                return ",".join(map(self.host, listed)) if known else whole
            case "path" | "file":
                return self.path(whole)
        return self._word(whole)

    def _url(self, url: str) -> str:
        scheme, _, rest = url.partition("://")
        authority, slash, tail = rest.partition("/")
        match = _AUTHORITY.fullmatch(authority)
        if match is None:
            return f"{scheme}://{component(self._coin, authority)}"
        host = match["host"]
        if host in PUBLIC_SITES and not match["user"]:
            return url
        made = (self._coin.named("user", match["user"][:-1]) + "@") if match["user"] else ""
        if host.startswith("["):
            made += f"[{ipv6(self._coin, host[1:-1])}]"
        elif host:
            made += self.host(host)
        made += match["port"] or ""
        return f"{scheme}://{made}" + (self.path(f"/{tail}") if slash else "")

    def _word(self, word: str) -> str:
        """Replace a word that is a name, or the parts of one that are."""
        made = self._name(word)
        if made is not None:
            return made
        return _PARTS.sub(self._named_part, word) if self._names or self._hide else word

    def _named_part(self, match: re.Match[str]) -> str:
        made = self._name(match[0])
        if made is not None:
            return made
        return _SMALL.sub(lambda bit: self._name(bit[0]) or bit[0], match[0])

    def _name(self, word: str) -> str | None:
        lower = word.lower()
        return None if lower in self._keep else self._hide.get(lower) or self._names.get(lower)
