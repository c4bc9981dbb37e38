"""Find users' cards and put them beside the signatures that ship with whyhang.

Where they are looked for, the first of equal ids winning: the folders named with ``--cards``,
``cards/`` in the user's configuration folder, and installed packages that name a folder by an
entry point of the group ``whyhang.cards`` (no code of theirs is run). A card takes the place
of a shipped signature only if it says ``override = true``.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from whyhang.analyzer.cards.card import Card, Mistake, meant, read_card
from whyhang.analyzer.cards.settings import configuration, runbooks
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.model import Gap, Record, Source, replace
from whyhang.analyzer.signature import Signature

GROUP = "whyhang.cards"
SHOWN = 3  # mistakes of one card in a report; `whyhang cards check` says all


class Known(Record):
    """All signatures a diagnosis may use, the cards among them, and what went wrong."""

    signatures: tuple[Signature, ...]
    cards: tuple[Card, ...] = ()
    gaps: tuple[Gap, ...] = ()

    def owners(self) -> dict[str, str]:
        """Map the patterns of cards to the card they are from."""
        from whyhang.analyzer.match.log import patterns_of  # noqa: PLC0415 - not for `--help`

        return {
            pattern: signature.origin
            for signature in self.signatures
            if signature.origin
            for matcher in (signature.when, signature.unless)
            for pattern in patterns_of(matcher)
        }


def known(folders: Sequence[str] = ()) -> Known:
    """Load the shipped signatures and all cards; ``folders`` are those the user named.

    Raises ``TargetError`` for one that does not exist. A mistake in a card is a gap.
    """
    from whyhang import signatures  # noqa: PLC0415 - not for `--help`

    shipped = signatures.load()
    found: list[Card] = []
    gaps: list[Gap] = []
    for shown, path in _files(folders, gaps):
        try:
            data = path.read_bytes()
        except OSError as error:
            gaps.append(_gap(shown, f"it cannot be read ({error.strerror})"))
            continue
        found.append(read_card(shown, data))
    cards = settled(found, shipped)
    gaps += [_of_mistakes(card) for card in cards if card.mistakes]
    own = {card.signature.id: card.signature for card in cards if card.signature is not None}
    links, more = runbooks()
    gaps += more
    every = (*(s for s in shipped if s.id not in own), *own.values())
    return Known(
        signatures=tuple(sorted((links.on(s) for s in every), key=lambda s: s.id)),
        cards=cards,
        gaps=tuple(gaps),
    )


def settled(cards: Sequence[Card], shipped: Iterable[Signature]) -> tuple[Card, ...]:
    """Hold cards against each other and against the shipped signatures.

    A card is left out if its id is taken, by a card before it or by a shipped signature.
    """
    builtin = {signature.id for signature in shipped}
    every = builtin | {card.signature.id for card in cards if card.signature is not None}
    owner: dict[str, str] = {}
    found = []
    for card in cards:
        if card.signature is None:
            found.append(card)
            continue
        name = card.signature.id
        more = [*_clash(card, name, owner, builtin), *_strangers(card, card.signature, every)]
        spoilt = any(mistake.spoils for mistake in more)
        if not spoilt:
            owner[name] = card.file
        found.append(
            replace(
                card,
                signature=None if spoilt else card.signature,
                mistakes=tuple(sorted((*more, *card.mistakes), key=lambda m: m.line or 0)),
            )
        )
    return tuple(found)


def _clash(
    card: Card, name: str, owner: Mapping[str, str], builtin: Collection[str]
) -> Iterator[Mistake]:
    line = card.lines.get(("id",))
    if name in owner:
        yield Mistake(
            text=f'the id "{name}" is that of {owner[name]}, which comes first', line=line
        )
    elif name in builtin and not card.override:
        yield Mistake(
            text=f'the id "{name}" is that of a signature of whyhang; '
            "choose another, or say override = true to replace it",
            line=line,
        )
    elif card.override and name not in builtin:
        yield Mistake(
            text=f'there is no signature "{name}" of whyhang to replace{meant(name, [*builtin])}',
            line=card.lines.get(("override",)),
            spoils=False,
        )


def _strangers(card: Card, signature: Signature, every: Collection[str]) -> Iterator[Mistake]:
    """Name the ids in ``outranks`` that are nobody's."""
    for number, name in enumerate(signature.outranks):
        if name not in every:
            yield Mistake(
                text=f'outranks names "{name}", which is no signature{meant(name, [*every])}',
                line=card.lines.get(("outranks", number)),
                spoils=False,
            )


def _files(folders: Sequence[str], gaps: list[Gap]) -> Iterator[tuple[str, Path]]:
    """Give each card file once, with the name to show for it."""
    seen: set[Path] = set()
    for shown, path in _everywhere(folders, gaps):
        real = path.resolve()
        if real not in seen:
            seen.add(real)
            yield shown, path


def _everywhere(folders: Sequence[str], gaps: list[Gap]) -> Iterator[tuple[str, Path]]:
    for name in folders:
        if not Path(name).exists():
            raise TargetError(
                f"there is no folder of cards at {name}", "Check the path given with --cards."
            )
        yield from ((str(path), path) for path in cards_in(Path(name)))
    home = configuration()
    if home is not None:
        yield from ((str(path), path) for path in cards_in(home / "cards"))
    if _some_package_has_cards():
        for package, folder in _packages(gaps):
            for path in cards_in(folder):
                yield f"{package}:{path.relative_to(folder)}", path


def cards_in(path: Path) -> list[Path]:
    """List the card files in a folder and below, or the file itself."""
    if path.is_file():
        return [path]
    found = []
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        found += [
            Path(folder) / name
            for name in sorted(names)
            if name.endswith(".toml") and not name.startswith(".")
        ]
    return found


def _some_package_has_cards() -> bool:
    """Tell quickly whether any entry point is of the group: mostly there is none.

    Asking ``importlib.metadata`` takes a millisecond for each installed package.
    """
    for place in sys.path:
        try:
            with os.scandir(place or ".") as entries:
                folders = [e.path for e in entries if e.name.endswith((".dist-info", ".egg-info"))]
        except OSError:
            continue
        for folder in folders:
            points = f"{folder}/entry_points.txt"
            with contextlib.suppress(OSError), open(points, "rb") as file:  # noqa: PTH123 - hundreds
                if GROUP.encode() in file.read():
                    return True
    return False


def _packages(gaps: list[Gap]) -> Iterator[tuple[str, Path]]:
    """Give the folders that installed packages name, without importing the packages."""
    from importlib import metadata  # noqa: PLC0415 - heavy

    for point in metadata.entry_points(group=GROUP):
        top, *inner = point.module.split(".")
        try:
            spec = importlib.util.find_spec(top)
        except (ImportError, ValueError):
            spec = None
        places = (spec.submodule_search_locations if spec is not None else None) or ()
        existing = [folder for place in places if (folder := Path(place, *inner)).is_dir()]
        if not existing:
            gaps.append(_gap(f"of the entry point {point.name} = {point.value}", "no such package"))
        for folder in existing:
            yield point.module, folder


def _of_mistakes(card: Card) -> Gap:
    told = [
        f"line {mistake.line}: {mistake.text}" if mistake.line else mistake.text
        for mistake in card.mistakes[:SHOWN]
    ]
    if len(card.mistakes) > SHOWN:
        told.append(f"{len(card.mistakes) - SHOWN} more")
    return _gap(card.file, "; ".join(told), used=card.signature is not None)


def _gap(card: str, why: str, *, used: bool = False) -> Gap:
    return Gap(
        what=f"using the card {card}",
        why=why,
        cost="it is used all the same" if used else "what it describes is not recognised",
        remedy=f"`whyhang cards check {card}` says all its mistakes",
        source=Source(file=card),
    )
