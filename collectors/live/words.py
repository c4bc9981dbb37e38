"""What is said of what cannot be looked at, or could not be had; ``words.toml`` has the words."""

from whyhang.analyzer import toml
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import NOBODY, Gap, Record, Who


class _Words(Record):
    refusals: dict[str, tuple[str, str]]
    gaps: dict[str, Gap]


_WORDS = toml.read(__package__, "words.toml", _Words)


def refusal(name: str, /, **parts: object) -> TargetError:
    """Refuse what a person pointed at."""
    message, remedy = (text.format(**parts) for text in _WORDS.refusals[name])
    return TargetError(message, remedy)


def gap(name: str, about: Who = NOBODY, /, **parts: object) -> Gap:
    """Say that evidence about somebody was not had."""
    words = _WORDS.gaps[name]
    what, why = words.what.format(**parts), words.why.format(**parts)
    cost, remedy = words.cost.format(**parts), words.remedy.format(**parts)
    return Gap(what=what, why=why, cost=cost, remedy=remedy, who=about)
