"""``whyhang cards``."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from whyhang.analyzer.errors import TargetError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from whyhang.analyzer.cards.card import Card
    from whyhang.analyzer.cards.load import Known
    from whyhang.analyzer.model import Gap


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare where a command finds cards beside the usual places."""
    parser.add_argument(
        "--cards",
        action="append",
        default=[],
        metavar="DIR",
        type=_existing,
        help="use the cards in this folder, too; may be repeated (see `whyhang cards`)",
    )


def _existing(name: str) -> str:
    if not Path(name).exists():
        raise TargetError(
            f"there is no folder of cards at {name}",
            "Name the folder that holds the .toml files, or leave --cards out.",
        )
    return name


class Cards:
    """List your own signatures (TOML cards), test them, or print one to start from.

    Without a word, list the cards that are in use. They are read from the folders given with
    --cards, from cards/ in ~/.config/whyhang ($XDG_CONFIG_HOME), and from installed packages
    with an entry point of the group "whyhang.cards".

    whyhang cards check FILE...   say each mistake with its line; exit code 1 if there is one
    whyhang cards new             print a complete card with a word on each field
    """

    name = "cards"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare what to do, and with which files."""
        parser.add_argument(
            "action", nargs="?", choices=("list", "check", "new"), default="list", help="see above"
        )
        parser.add_argument(
            "files", nargs="*", metavar="FILE", help="cards to check, or folders of them"
        )
        add_arguments(parser)

    def run(self, options: argparse.Namespace) -> int:
        """List, check or print."""
        if options.action == "new":
            from whyhang.analyzer.cards.settings import configuration  # noqa: PLC0415
            from whyhang.analyzer.cards.template import template  # noqa: PLC0415

            sys.stdout.write(template(_short(configuration() or Path("~/.config/whyhang"))))
            return 0
        if options.action == "check":
            return _check(options.files or options.cards)
        from whyhang.analyzer.cards.load import known  # noqa: PLC0415 - not for `--help`

        found = known(options.cards)
        sys.stdout.write(_listing(found))
        complain(found.gaps)
        return 0


def complain(gaps: Iterable[Gap]) -> None:
    """Say on standard error what is wrong with cards."""
    for gap in gaps:
        sys.stderr.write(f"whyhang: {gap}\n")


def _check(names: Sequence[str]) -> int:
    """Test each card by itself, and their ids against each other and those of whyhang."""
    from whyhang import signatures  # noqa: PLC0415 - not for `--help`
    from whyhang.analyzer.cards.card import read_cards  # noqa: PLC0415
    from whyhang.analyzer.cards.clash import settled  # noqa: PLC0415
    from whyhang.analyzer.cards.load import cards_in  # noqa: PLC0415

    if not names:
        raise TargetError("there is no card to check", "Give files or folders of cards.")
    cards: list[Card] = []
    for name in names:
        if not Path(name).exists():
            raise TargetError(f"{name} does not exist", "Give files or folders of cards.")
        for path in cards_in(Path(name)):
            cards += read_cards(str(path), _content(path), thorough=True)
    if not cards:
        raise TargetError(f"there is no .toml file in {', '.join(names)}")
    wrong = False
    for card in settled(cards, signatures.load()):
        if not card.mistakes and card.signature is not None:
            count = len(card.signature.matches) + len(card.signature.misses)
            sys.stdout.write(f"{card.file}: {card.signature.id}: good, {count} examples\n")
        for mistake in card.mistakes:
            wrong = True
            sys.stdout.write(f"{card.file}:{mistake.line or 1}: {mistake.text}\n")
    return 1 if wrong else 0


def _content(path: Path) -> bytes:
    from whyhang.analyzer.cards.load import content  # noqa: PLC0415 - not for `--help`

    try:
        return content(path)
    except OSError as error:
        raise TargetError(f"{path} cannot be read ({error.strerror})") from error


def _listing(found: Known) -> str:
    from whyhang.analyzer.cards.settings import configuration  # noqa: PLC0415

    used = [(card, card.signature) for card in found.cards if card.signature is not None]
    if not used:
        home = configuration()
        place = f" Put cards into {_short(home)}/cards/, or" if home is not None else ""
        return (
            f"No cards are in use.{place} give their folder with --cards DIR.\n"
            "`whyhang cards new` prints one to start from.\n"
        )
    width = max(len(signature.id) for _, signature in used)
    lines = []
    for card, signature in used:
        marks = [signature.kind.value, signature.category]
        if card.override:
            marks.append("overrides")
        lines.append(f"{signature.id:<{width}}  {', '.join(marks)}\n")
        lines.append(f"    {_short(Path(card.file))}\n")
    return "".join(lines)


def _short(path: Path) -> str:
    """Write a path as people do: with ~ for their home."""
    home = os.path.expanduser("~")  # noqa: PTH111 - gives "~" where there is no home
    text = str(path)
    return "~" + text[len(home) :] if text.startswith(home + "/") else text
