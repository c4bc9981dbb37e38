"""Find users' cards and put them beside the signatures that ship with whyhang.

Where they are looked for, the first of equal ids winning: the folders named with ``--cards``,
those that the configuration names, ``cards/`` in the user's configuration folder, and installed
packages that name a folder by an entry point of the group ``whyhang.cards`` (no code of theirs is
run). A card takes the place of a shipped signature only if it says ``override = true``.
"""

import importlib.util
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from importlib import metadata
from pathlib import Path

from whyhang import signatures
from whyhang.analyzer.cards.card import Card, meant, read_cards
from whyhang.analyzer.configuration.config_files import NAME as CONFIGURATION
from whyhang.analyzer.configuration.config_files import home
from whyhang.analyzer.configuration.settings import Settings, gaps_of, settings
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Gap, Record, Source, replace
from whyhang.analyzer.findings.categories import CATEGORIES
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.toml_lines import MAX_BYTES, Mistake

GROUP = "whyhang.cards"
SHOWN = 3  # mistakes of one card in a report; `whyhang cards check` says all


class KnownSignatures(Record):
    """All signatures a diagnosis may use, the cards among them, and what went wrong."""

    signatures: tuple[Signature, ...]
    cards: tuple[Card, ...] = ()
    gaps: tuple[Gap, ...] = ()

    @property
    def names(self) -> set[str]:
        """All signatures and categories that a configuration may speak of."""
        return {
            *(signature.id for signature in self.signatures),
            *(signature.category for signature in self.signatures),
            *(category for group in CATEGORIES.values() for category in group),
        }

    def owners(self) -> dict[str, str]:
        """Map the patterns of cards to the card they are from."""
        return {
            pattern: signature.origin
            for signature in self.signatures
            if signature.origin
            for pattern in signature.searched
        }


def known(folders: Sequence[str] = ()) -> KnownSignatures:
    """Load the shipped signatures and all cards; ``folders`` are those the user named.

    Raises ``TargetError`` for one that does not exist. A mistake in a card is a gap.
    """
    shipped = signatures.load()
    configured = settings()
    gaps: list[Gap] = []
    found: dict[Path, tuple[str, Path]] = {}
    for name, path in _files(folders, configured, gaps):
        found.setdefault(path.resolve(), (name, path))  # each once
    cards = _read(list(found.values()), shipped, gaps)
    own = {card.signature.id: card.signature for card in cards if card.signature is not None}
    every = sorted((*(s for s in shipped if s.id not in own), *own.values()), key=lambda s: s.id)
    loaded = KnownSignatures(signatures=tuple(map(configured.advise, every)), cards=cards)
    wrong = (*configured.mistakes, *configured.misnamed(loaded.names))
    return replace(loaded, gaps=(*gaps_of(wrong), *gaps))


def _read(
    files: Sequence[tuple[str, Path]], shipped: Sequence[Signature], gaps: list[Gap]
) -> tuple[Card, ...]:
    texts = [(shown, _content(shown, path, gaps)) for shown, path in files]
    read = [card for name, data in texts if data is not None for card in read_cards(name, data)]
    cards = settled(read, shipped)
    gaps += [_of_mistakes(card) for card in cards if card.mistakes]
    return cards


def _files(
    folders: Sequence[str], configured: Settings, gaps: list[Gap]
) -> Iterator[tuple[str, Path]]:
    """Yield each card file with the name to show for it, as often as it is found."""
    for name in folders:
        if not Path(name).exists():
            why = f"there is no folder of cards at {name}"
            raise TargetError(why, "Check the path given with --cards.")
        yield from ((str(path), path) for path in cards_in(Path(name)))
    for configured_folder in map(Path, configured.table("cards").get("folders", ())):
        yield from ((str(path), path) for path in cards_in(configured_folder))
    own = home()
    if own is not None:
        yield from ((str(path), path) for path in cards_in(own / "cards"))
    for package, folder in _packages(gaps):
        for path in cards_in(folder):
            yield f"{package}:{path.relative_to(folder)}", path


def _content(shown: str, path: Path, gaps: list[Gap]) -> bytes | None:
    try:
        return content(path)
    except OSError as error:
        gaps.append(_gap(shown, f"it cannot be read ({error.strerror})"))
        return None


def content(path: Path) -> bytes:
    """Read a card, or the start of what is much too large for one. Raises ``OSError``."""
    with path.open("rb") as file:
        return file.read(MAX_BYTES + 1)


def cards_in(path: Path) -> list[Path]:
    """List the card files in a folder and below, or the file itself."""
    if os.path.isfile(path):  # noqa: PTH113 - no error where it may not be seen
        return [path]
    files = []
    for folder, inner, names in os.walk(path):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        # The configuration may name its own folder.
        named = (n for n in sorted(names) if n.endswith(".toml") and n != CONFIGURATION)
        paths = (Path(folder, name) for name in named if not name.startswith("."))
        files += [path for path in paths if path.is_file()]
    return files


def _packages(gaps: list[Gap]) -> Iterator[tuple[str, Path]]:
    """Yield the folders that installed packages name, without importing the packages."""
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
    first = card.mistakes[:SHOWN]
    texts = [f"line {wrong.line}: {wrong.text}" if wrong.line else wrong.text for wrong in first]
    if len(card.mistakes) > SHOWN:
        texts.append(f"{len(card.mistakes) - SHOWN} more")
    return _gap(card.file, "; ".join(texts), used=card.signature is not None)


def _gap(card: str, why: str, *, used: bool = False) -> Gap:
    return Gap(
        what=f"using the card {card}",
        why=why,
        cost="it is used all the same" if used else "what it describes is not recognised",
        remedy=f"`whyhang cards check {card}` says all its mistakes",
        source=Source(file=card),
    )


def settled(cards: Sequence[Card], shipped: Iterable[Signature]) -> tuple[Card, ...]:
    """Hold cards against each other and against the shipped signatures.

    A card is left out if its id is taken, by a card before it or by a shipped signature that is
    not the card itself.
    """
    builtin = {signature.id: signature for signature in shipped}
    every = builtin.keys() | {card.signature.id for card in cards if card.signature is not None}
    owner: dict[str, str] = {}
    checked = []
    for card in cards:
        if card.signature is None:
            checked.append(card)
            continue
        more = [
            *_clash(card, card.signature, owner, builtin),
            *_unknown_ids(card, card.signature, every),
        ]
        spoilt = any(mistake.spoils for mistake in more)
        if not spoilt:
            owner[card.signature.id] = card.file
        mistakes = tuple(sorted((*more, *card.mistakes), key=lambda m: m.line or 0))
        signature = None if spoilt else card.signature
        checked.append(replace(card, signature=signature, mistakes=mistakes))
    return tuple(checked)


def _clash(
    card: Card, signature: Signature, owner: Mapping[str, str], builtin: Mapping[str, Signature]
) -> Iterator[Mistake]:
    name = signature.id
    line = card.lines.get(("id",))
    itself = replace(signature, origin="") == builtin.get(name)
    if name in owner:
        text = f'the id "{name}" is that of {owner[name]}, which comes first'
        yield Mistake(text=text, line=line)
    elif name in builtin and not card.override and not itself:
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


def _unknown_ids(card: Card, signature: Signature, every: Collection[str]) -> Iterator[Mistake]:
    """Name the ids in ``explains`` (``outranks`` in older cards) that are nobody's."""
    fields = [path for path in card.lines if len(path) == 2 and path[0] in {"explains", "outranks"}]
    for name, path in zip(signature.explains, sorted(fields), strict=False):
        if name not in every:
            text = f'{path[0]} names "{name}", which is no signature{meant(name, [*every])}'
            yield Mistake(text=text, line=card.lines[path], spoils=False)
