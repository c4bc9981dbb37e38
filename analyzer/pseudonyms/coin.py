"""Make one pseudonym of one word: keyed, short, and recognised when it is met again.

Words that name no person, machine or project stay in paths and are no names of hosts.
"""

import base64
import functools
import hashlib
import hmac
import random
import re
from collections.abc import Container

from whyhang.analyzer.stacks.usercode import FRAMEWORKS, LIBRARIES, SCRIPTS, STDLIB_PACKAGES
from whyhang.analyzer.toml import table

_TABLE = table(__package__, "common_words.toml")

PACKAGES = FRAMEWORKS | LIBRARIES | STDLIB_PACKAGES
"""Packages that everybody has: the files in them are no secret."""

PUBLIC_WORDS = {*_TABLE["common"].split(), *(word.lower() for word in PACKAGES | SCRIPTS)}
ENGLISH = frozenset(_TABLE["english"].split())
PUBLIC_SITES = tuple(_TABLE["sites"])

PUBLIC_DOMAINS = ("nvidia.com", *PUBLIC_SITES)  # whose names are no names of hosts of the job
_MADE = re.compile(r"(?:host|net|user)-[a-z2-7]{8}|w[2-7][a-z2-7]{6}[2-7]")


class Coin:
    """Pseudonyms under one key; what is in ``keep`` (in lower case) is called what it is."""

    def __init__(self, key: bytes, keep: Container[str] = ()) -> None:
        self._key = key
        self._keep = keep
        self.named = functools.lru_cache(1 << 16)(self._named)
        self.word = functools.lru_cache(1 << 16)(self._word)
        self.octets = functools.lru_cache(1 << 12)(self._octets)

    def digest(self, kind: str, text: str) -> bytes:
        """Return what stands for a text of a kind under this key."""
        return hmac.digest(self._key, f"{kind}\0{text}".encode("utf-8", "replace"), hashlib.sha256)

    def _named(self, kind: str, text: str) -> str:
        """Return "host-k3f9q2ab" for a host; a pseudonym stays as it is."""
        if self._stays(text):
            return text
        return f"{kind}-{_letters(self.digest(kind, text.lower()))[:8]}"

    def _word(self, text: str) -> str:
        """Return "w4kf9q2a7" for a word of a path; the digits keep it from being a word."""
        if self._stays(text):
            return text
        digest = self.digest("word", text.lower())
        first, last = (str(2 + digest[n] % 6) for n in (30, 31))
        return f"w{first}{_letters(digest)[:6]}{last}"

    def _stays(self, text: str) -> bool:
        return is_pseudonym(text) or text.lower() in self._keep

    def _octets(self, before: str) -> tuple[int, ...]:
        """Return a permutation of the bytes that may follow a part of an address.

        The ends stay, so that an address of a whole network and one of all its hosts are ones.
        """
        inner = list(range(1, 255))
        random.Random(self.digest("address", before)).shuffle(inner)  # noqa: S311 - keyed
        return (0, *inner, 255)


def _letters(digest: bytes) -> str:
    return base64.b32encode(digest).decode().lower()


def is_pseudonym(word: str) -> bool:
    """Return whether a word is one that was made here."""
    return _MADE.fullmatch(word) is not None
