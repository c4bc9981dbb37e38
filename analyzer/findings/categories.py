"""What stands in TOML beside this: the categories of the contract, and texts of reports."""

from whyhang.analyzer.findings.signature import Level
from whyhang.analyzer.toml import table

_LEVELS: dict[str, dict[str, Level]] = table(__package__, "categories.toml")
_WORDS = table(__package__, "texts.toml")

CATEGORIES = {topic: tuple(levels) for topic, levels in _LEVELS.items()}
"""The names of a topic's categories, by topic."""

LEVEL_OF = {category: level for levels in _LEVELS.values() for category, level in levels.items()}
"""The level of what is of a category, where a card states none."""

KINDS: dict[str, frozenset[str]] = {kind: frozenset(own) for kind, own in _WORDS["kinds"].items()}
"""Categories that are treated alike, by what is said of them."""

TEXTS: dict[str, str] = _WORDS["texts"]
CAUSE_UNSEEN: tuple[str, ...] = tuple(_WORDS["cause-unseen"])
"""What to do where only a consequence is known, and its signature does not know better."""
