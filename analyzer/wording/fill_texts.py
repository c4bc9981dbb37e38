"""Fill the texts of a signature with the words of a case."""

import re
from collections.abc import Mapping

_VERB = re.compile(
    r"\{(who|gpus|hosts|others)\} (?!(?:always|this|its|as|across|perhaps|plus)\b)([a-z]+s)\b"
)
_COUNT = re.compile(r"\{(\w+)\} (rank|process|node|host|client)(?:es|s)\b(?: (have|are|were)\b)?")
_OF_ONE = {"have": " has", "are": " is", "were": " was", None: ""}
_IRREGULAR = {"is": "are", "was": "were", "has": "have", "does": "do", "goes": "go"}
_MANY = re.compile(r"the others$|(?:ranks|GPUs|hosts) |.*(?:, |; | and )|\d+ (?:processes|GPUs)")


_VERBS = {"is": "is", "has": "has", "gets": "gets", "waits": "waits", "do": "does", "stay": "stays"}
"""Verbs that agree with ``{who}``, wherever they stand in a text, and how they are of one.

``{wait}`` agrees with ``{others}``.
"""


class _Words(dict[str, str]):
    """Fields of a text; one that the evidence does not fill reads as "?", not as a crash."""

    def __missing__(self, key: str) -> str:
        if key == "wait":
            return _agreeing("waits", self.get("others", ""))
        return _agreeing(_VERBS[key], self.get("who", "")) if key in _VERBS else "?"


def fill(text: str, words: Mapping[str, str]) -> str:
    """Fill the fields of a text; a verb behind ``{who}``, a noun behind a count agree with it."""

    def agreeing(match: re.Match[str]) -> str:
        field, verb = match.groups()
        return f"{{{field}}} {_agreeing(verb, words.get(field, ''))}"

    def counted(match: re.Match[str]) -> str:
        field, noun, verb = match.groups()
        return f"{{{field}}} {noun}{_OF_ONE[verb]}" if words.get(field) == "1" else match.group()

    text = _COUNT.sub(counted, text)
    return _VERB.sub(agreeing, text).format_map(_Words(words))


_UNKNOWN = re.compile(r"(?:^|(?<=[.:] ))\?(?:$| )")
"""A whole sentence that the evidence does not fill."""


def fill_advice(text: str, words: Mapping[str, str]) -> str:
    """Fill a text without the sentences of which nothing is known; empty if none is left."""
    return _UNKNOWN.sub("", fill(text, words)).strip()


def as_template(text: str, words: Mapping[str, str]) -> str:
    """Fill a text where there is no case: verbs as of one rank, an unknown field in capitals."""
    of_one = {**_VERBS, "wait": "waits", "its": "its", "advice": ""}
    known = {**{name: name.upper() for name in _FIELD.findall(text)}, **of_one, **words}
    return text.format_map(known).strip()


_FIELD = re.compile(r"\{(\w+)\}")


def sentence(text: str) -> str:
    """Begin each sentence with a capital, where a field that may stand anywhere begins it."""
    text = re.sub(r"(?<=\. )ranks? \d", lambda match: match.group().capitalize(), text)
    first = re.match(r"\w+", text)  # a name of code keeps its letters: init_process_group
    return text if first and "_" in first.group() else text[:1].upper() + text[1:]


def _agreeing(verb: str, whom: str) -> str:
    if not _MANY.match(whom):
        return verb
    short = verb[:-2] if verb.endswith(("ches", "shes", "sses", "xes")) else verb[:-1]
    return _IRREGULAR.get(verb, short)
