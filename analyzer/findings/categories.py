"""The categories of the contract by topic, and the level that follows from each."""

from importlib.resources import files

from whyhang.analyzer.findings.signature import Level
from whyhang.analyzer.toml import tomllib

_TABLE: dict[str, dict[str, Level]] = tomllib.loads(
    files(__package__).joinpath("categories.toml").read_text(encoding="utf-8")
)
CATEGORIES = {topic: tuple(levels) for topic, levels in _TABLE.items()}
"""The names of a topic's categories, by topic."""

LEVEL_OF = {category: level for levels in _TABLE.values() for category, level in levels.items()}
"""The level of what is of a category, where a card states none."""
