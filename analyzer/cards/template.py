"""The card that ``whyhang cards new`` prints: complete, with a word on each field."""

from importlib.resources import files

from whyhang.analyzer.findings.categories import CATEGORIES


def template(home: str) -> str:
    """Return the text of a complete card; ``home`` is the user's configuration folder."""
    text = files(__package__).joinpath("template.toml").read_text(encoding="utf-8")
    topics = "\n".join(f"#   {topic}: {_folded(names)}" for topic, names in CATEGORIES.items())
    return text.replace("HOME", home, 1).replace("CATEGORIES", topics, 1)


def _folded(names: tuple[str, ...]) -> str:
    lines, line = [], ""
    for name in names:
        if len(line) + len(name) > 70:
            lines.append(line.rstrip())
            line = ""
        line += f"{name}, "
    return "\n#     ".join([*lines, line.rstrip(", ")])
