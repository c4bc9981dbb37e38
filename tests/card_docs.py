"""A user's card for tests: the template, changed in one place, and its mistakes."""

from __future__ import annotations

from pathlib import Path

from whyhang.analyzer.cards.card import read_cards, template

ROOT = Path(__file__).parent.parent
CARD = template("~/.config/whyhang")


def changed(old: str, new: str, card: str = CARD) -> str:
    """Change one thing in the template; what is to be changed must be there."""
    assert old in card
    return card.replace(old, new, 1)


def written(folder: Path, text: str = CARD, name: str = "quota.toml") -> Path:
    """Write a card into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def named_by_card(text: str | bytes) -> dict[int | None, str]:
    """Check a card thoroughly and give its mistakes by line."""
    data = text if isinstance(text, bytes) else text.encode()
    texts: dict[int | None, str] = {}
    for card in read_cards("c.toml", data, thorough=True):
        for mistake in card.mistakes:
            texts[mistake.line] = f"{texts.get(mistake.line, '')}{mistake.text}\n"
    return texts


def line_of(text: str, part: str) -> int:
    """Give the line on which something stands in a card."""
    return text[: text.index(part)].count("\n") + 1
