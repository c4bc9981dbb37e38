"""Pseudonyms of network addresses that are addresses of the same kind.

Two addresses that share their first bytes share them afterwards: what is in one network stays
so. Loopback, link-local and unspecified addresses, netmasks and Docker's usual network say what
they are to everybody, and are what a diagnosis may rest on; they stay.
"""

import ipaddress
import re

from whyhang.analyzer.pseudonyms.coin import Coin

_KEPT = tuple(
    ipaddress.ip_network(text)
    for text in ("0.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.17.0.0/16", "224.0.0.0/3")
)
_PRIVATE = (("10.", 1), ("192.168.", 2), ("172.", 1), ("100.", 1))
"""Beginnings that say of what kind an address is, and how many bytes they are."""


def ipv4(coin: Coin, text: str) -> str:
    """Return another address in place of one; what is none, or says nothing, stays."""
    try:
        address = ipaddress.IPv4Address(text)
    except ValueError:
        return text
    if any(address in network for network in _KEPT):
        return text
    parts = [int(part) for part in text.split(".")]
    kept = next((count for start, count in _PRIVATE if text.startswith(start)), 0)
    if text.startswith("172.") and 16 <= parts[1] < 32:
        kept = 2  # a private network of 16 bits' own
    made = [
        part if n < kept else coin.octets(".".join(map(str, parts[:n])))[part]
        for n, part in enumerate(parts)
    ]
    return ".".join(map(str, made))


def ipv6(coin: Coin, text: str) -> str:
    """Return another address in place of one, group by group."""
    head, mark, tail = text.rpartition(":ffff:")
    if mark and "." in tail:
        return f"{head}{mark}{ipv4(coin, tail)}"
    try:
        groups = ipaddress.IPv6Address(text).exploded.split(":")
    except ValueError:
        return text
    kept = 4 if groups[0].startswith("fe") else 0  # fe80:: is of every link
    made = [
        group if n < kept or group == "0000" else _group(coin, ":".join(groups[:n]), group, n)
        for n, group in enumerate(groups)
    ]
    return str(ipaddress.IPv6Address(":".join(made)))


def _group(coin: Coin, before: str, group: str, number: int) -> str:
    digest = coin.digest("address", f"{before}:{group}").hex()
    return group[:1] + digest[:3] if number == 0 else digest[:4]


def mac(coin: Coin, text: str) -> str:
    """Return another hardware address, or GUID of a port, of the same length."""
    digits = iter(coin.digest("mac", re.sub("[:-]", "", text).lower()).hex())
    return "".join(letter if letter in ":-" else next(digits) for letter in text)
