"""List your own signatures (TOML cards), test them, or print one to start from.

Without a word, list the cards that are in use. They are read from the folders given with
--cards, from cards/ in ~/.config/whyhang ($XDG_CONFIG_HOME), and from installed packages
with an entry point of the group "whyhang.cards".

whyhang cards check FILE...   say each mistake with its line; exit code 1 if there is one
whyhang cards new             print a complete card with a word on each field
"""

import argparse
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from whyhang import signatures
from whyhang.analyzer.cards.card import Card, read_cards, template
from whyhang.analyzer.cards.load import KnownSignatures, cards_in, content, known, settled
from whyhang.analyzer.commands.output import with_tilde
from whyhang.analyzer.configuration.config_files import home
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, counted
from whyhang.analyzer.reports.outgoing import plain


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to do, and with which files."""
    parser.add_argument(
        "action", nargs="?", choices=("list", "check", "new"), default="list", help="see above"
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE", help="cards to check, or folders of them"
    )
    add_card_folders(parser)


def add_card_folders(parser: argparse.ArgumentParser) -> None:
    """Declare where a command finds cards beside the usual places."""
    parser.add_argument(
        "--cards",
        action="append",
        default=[],
        metavar="DIR",
        help="use the cards in this folder, too; may be repeated (see `whyhang cards`)",
    )


def run(options: argparse.Namespace) -> int:
    """List, check or print."""
    if options.action == "new":
        sys.stdout.write(template(with_tilde(home() or "~/.config/whyhang")))
        return 0
    if options.action == "check":
        return _check(options.files or options.cards)
    in_use = known(options.cards)
    sys.stdout.write(_listing(in_use))
    complain(in_use.gaps)
    return 0


def complain(gaps: Iterable[Gap]) -> None:
    """Print on standard error what is wrong with cards."""
    for gap in gaps:
        sys.stderr.write(f"whyhang: {plain(str(gap))}\n")


def _check(names: Sequence[str]) -> int:
    """Test each card by itself, and their ids against each other and those of whyhang."""
    if not names:
        raise TargetError("there is no card to check", "Give files or folders of cards.")
    cards: list[Card] = []
    seen: set[Path] = set()
    for name in names:
        if not Path(name).exists():
            raise TargetError(f"{name} does not exist", "Give files or folders of cards.")
        for path in cards_in(Path(name)):
            if path.resolve() not in seen:  # a file may be named beside its folder
                seen.add(path.resolve())
                cards += read_cards(str(path), _content(path), thorough=True)
    if not cards:
        raise TargetError(f"there is no .toml file in {', '.join(names)}")
    checked = settled(cards, signatures.load())
    for card in checked:
        if not card.mistakes and card.signature is not None:
            count = len(card.signature.matches) + len(card.signature.misses)
            good = f"good, {counted(count, 'example')}"
            sys.stdout.write(f"{card.file}: {card.signature.id}: {good}\n")
        for mistake in card.mistakes:
            sys.stdout.write(f"{card.file}:{mistake.line or 1}: {mistake.text}\n")
    return 1 if any(card.mistakes for card in checked) else 0


def _content(path: Path) -> bytes:
    try:
        return content(path)
    except OSError as error:
        raise TargetError(f"{path} cannot be read ({error.strerror})") from error


def _listing(in_use: KnownSignatures) -> str:
    used = [(card, card.signature) for card in in_use.cards if card.signature is not None]
    if not used:
        own = home()
        place = f" Put cards into {with_tilde(own)}/cards/, or" if own is not None else ""
        return (
            f"No cards are in use.{place} give their folder with --cards DIR.\n"
            "`whyhang cards new` prints one to start from.\n"
        )
    width = max(len(signature.id) for _, signature in used)
    return "".join(
        f"{signature.id:<{width}}  {signature.kind.value}, {signature.category}"
        f"{', overrides' * card.override}\n    {with_tilde(card.file)}\n"
        for card, signature in used
    )
