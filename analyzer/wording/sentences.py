"""Fill the texts of a signature with the words of a case."""

import re
from collections.abc import Mapping

_VERB = re.compile(
    r"\{(who|gpus|hosts|others)\} (?!(?:always|this|its|as|across|perhaps|plus)\b)([a-z]+s)\b"
)
_IRREGULAR = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
_MANY = re.compile(r"(?:ranks|GPUs|hosts) |.*(?:, |; | and )|\d+ (?:processes|GPUs)")


class _Words(dict[str, str]):
    """Fields of a text; one that the evidence does not fill reads as "?", not as a crash."""

    def __missing__(self, key: str) -> str:
        return "?"


def fill(text: str, words: Mapping[str, str]) -> str:
    """Fill the fields of a text; a verb right behind ``{who}`` agrees with it in number."""

    def agreeing(match: re.Match[str]) -> str:
        field, verb = match.groups()
        return f"{{{field}}} {_plural(verb) if _MANY.match(words.get(field, '')) else verb}"

    return _VERB.sub(agreeing, text).format_map(_Words(words))


def sentence(text: str) -> str:
    """Begin each sentence with a capital, where a field that may stand anywhere begins it."""
    text = re.sub(r"(?<=\. )ranks? \d", lambda match: match.group().capitalize(), text)
    first = re.match(r"\w+", text)  # a name of code keeps its letters: init_process_group
    return text if first and "_" in first.group() else text[:1].upper() + text[1:]


def _plural(verb: str) -> str:
    if verb in _IRREGULAR:
        return _IRREGULAR[verb]
    return verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes")) else verb[:-1]
