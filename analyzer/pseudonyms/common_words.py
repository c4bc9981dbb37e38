"""Words that name no person, machine or project: they stay in paths and are no names of hosts."""

from importlib.resources import files

from whyhang.analyzer.stacks.packages import FRAMEWORKS, LIBRARIES, SCRIPTS, STDLIB_PACKAGES
from whyhang.analyzer.toml import tomllib

_TABLE = tomllib.loads(files(__package__).joinpath("common_words.toml").read_text(encoding="utf-8"))

PACKAGES = FRAMEWORKS | LIBRARIES | STDLIB_PACKAGES
"""Packages that everybody has: the files in them are no secret."""

PUBLIC_WORDS = {*_TABLE["common"].split(), *(word.lower() for word in PACKAGES | SCRIPTS)}
ENGLISH = frozenset(_TABLE["english"].split())
PUBLIC_SITES = tuple(_TABLE["sites"])

PUBLIC_DOMAINS = ("nvidia.com", *PUBLIC_SITES)
"""Whose names are no names of hosts of the job."""
