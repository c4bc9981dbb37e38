"""Hold cards against each other and against the signatures that ship with whyhang."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from whyhang.analyzer.cards.card import Card, Mistake, meant
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import Signature


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
        checked.append(
            replace(
                card,
                signature=None if spoilt else card.signature,
                mistakes=tuple(sorted((*more, *card.mistakes), key=lambda m: m.line or 0)),
            )
        )
    return tuple(checked)


def _clash(
    card: Card, signature: Signature, owner: Mapping[str, str], builtin: Mapping[str, Signature]
) -> Iterator[Mistake]:
    name = signature.id
    line = card.lines.get(("id",))
    itself = replace(signature, origin="") == builtin.get(name)
    if name in owner:
        yield Mistake(
            text=f'the id "{name}" is that of {owner[name]}, which comes first', line=line
        )
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
            yield Mistake(
                text=f'{path[0]} names "{name}", which is no signature{meant(name, [*every])}',
                line=card.lines[path],
                spoils=False,
            )
