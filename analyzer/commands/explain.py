"""``whyhang explain``."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from whyhang.analyzer.errors import WhyhangError

if TYPE_CHECKING:
    from whyhang.analyzer.signature import Signature


class Explain:
    """Say what a signature means, how it is recognised and what to do.

    Without a name, list all signatures by category.
    """

    name = "explain"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the signature's name."""
        parser.add_argument("signature", nargs="?", help="id of a signature, or a category")

    def run(self, options: argparse.Namespace) -> int:
        """Print one signature, those of one category, or the list."""
        from whyhang import signatures  # noqa: PLC0415 - not for `--help`

        known = signatures.load()
        if options.signature is None:
            sys.stdout.write(listing(known))
            return 0
        wanted = [s for s in known if options.signature in {s.id, s.category}]
        exact = [s for s in wanted if s.id == options.signature]
        if not wanted:
            raise _unknown(options.signature, known)
        sys.stdout.write("\n\n".join(story(s) for s in (exact or wanted)) + "\n")
        return 0


def _unknown(name: str, known: tuple[Signature, ...]) -> WhyhangError:
    names = sorted({s.id for s in known} | {s.category for s in known})
    import difflib  # noqa: PLC0415 - for mistakes only

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.4)
    hint = f"Did you mean {', '.join(near)}? " if near else ""
    return WhyhangError(
        f"there is no signature or category called {name!r}",
        f"{hint}`whyhang explain` lists all.",
    )


def listing(known: tuple[Signature, ...]) -> str:
    """List all signatures by category, one line each."""
    by_category: dict[str, list[Signature]] = {}
    for signature in known:
        by_category.setdefault(signature.category, []).append(signature)
    lines = []
    for category in sorted(by_category):
        lines.append(category)
        for s in by_category[category]:
            first = s.story.partition("\n")[0].rstrip(".")
            mark = "" if s.kind.value == "cause" else f" [{s.kind.value}]"
            lines.append(f"  {s.id:<34} {first}{mark}")
    return "\n".join(lines) + "\n"


def story(signature: Signature) -> str:
    """Tell one signature: its story, how it is recognised, what to do."""
    parts = [
        f"{signature.id}  ({signature.category}, {signature.kind.value})",
        "",
        signature.story,
    ]
    if signature.matches:
        parts += ["", "Recognised by lines such as"]
        parts += [f"  {line}" for line in signature.matches]
    for title, texts in (
        ("Do now", signature.remedies),
        ("To confirm", signature.next_steps),
        ("See", signature.links),
    ):
        if texts:
            parts += ["", title]
            parts += [f"  - {_plain(text)}" for text in texts]
    return "\n".join(parts)


def _plain(text: str) -> str:
    """Fill the places of a template with words that read well without a case."""

    class Words(dict[str, str]):
        def __missing__(self, key: str) -> str:
            words = {"who": "the rank", "where": "its place in the code", "worker": "PID"}
            return words.get(key, key.upper())

    return text.format_map(Words())
