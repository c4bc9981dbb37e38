"""The user's configuration: where it is, and the runbooks in it.

``config.toml`` may give each finding a link into the team's own wiki::

    [runbooks]
    dataloader-blocked = "https://wiki.example.org/hangs/dataloader"   # a signature's id
    nccl-ib-error = "https://wiki.example.org/hangs/infiniband"        # or a category
    default = "https://wiki.example.org/hangs#{signature}"             # or all others
"""

from __future__ import annotations

import os
from pathlib import Path

from whyhang.analyzer.facts import Gap, Record, Source, replace
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.toml import tomllib


class Runbooks(Record):
    """Links to runbooks, by signature, by category and for all others."""

    links: dict[str, str]

    def on(self, signature: Signature) -> Signature:
        """Return the signature with its link; one that its card has stays."""
        if signature.runbook is not None or not self.links:
            return signature
        keys = (signature.id, signature.category, "default")
        link = next((self.links[key] for key in keys if key in self.links), None)
        if link is None:
            return signature
        link = link.replace("{signature}", signature.id).replace("{category}", signature.category)
        return replace(signature, runbook=link)


def configuration() -> Path | None:
    """Return the user's folder (``$XDG_CONFIG_HOME`` or ``~/.config``); None without a home."""
    root = Path(os.environ.get("XDG_CONFIG_HOME") or "")
    try:
        return (root if root.is_absolute() else Path("~/.config").expanduser()) / "whyhang"
    except RuntimeError:
        return None


def runbooks() -> tuple[Runbooks, list[Gap]]:
    """Read the links of ``config.toml``; a mistake in it is a gap."""
    home = configuration()
    path = home / "config.toml" if home is not None else None
    if path is None or not os.path.isfile(path):  # noqa: PTH113 - no error where it may not be seen
        return Runbooks(links={}), []
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8")).get("runbooks", {})
    except (OSError, ValueError) as error:  # UnicodeDecodeError and TOMLDecodeError are ValueErrors
        return Runbooks(links={}), [_gap(path, str(error))]
    if not isinstance(table, dict):
        return Runbooks(links={}), [_gap(path, "runbooks must be a table")]
    links = {name: link for name, link in table.items() if isinstance(link, str) and link.strip()}
    wrong = sorted(table.keys() - links.keys())
    if wrong:
        return Runbooks(links=links), [_gap(path, f"runbooks.{wrong[0]} must be a text in quotes")]
    return Runbooks(links=links), []


def _gap(path: Path, why: str) -> Gap:
    return Gap(
        what=f"reading {path}",
        why=why,
        cost="findings have no links to your runbooks",
        source=Source(file=str(path)),
    )
