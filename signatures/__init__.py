"""What hangs look like: known hangs, and the frames that mean waiting.

Signatures over log lines stand in TOML files by topic, in the format of users' cards; those
over relations between ranks are modules below ``relations``, one a relation. ``frames`` holds the
table of frames.
"""

import functools
import importlib
import pkgutil
from collections.abc import Iterator
from importlib.resources import files

import tomli

from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.findings.signature_toml import signature_of
from whyhang.signatures import relations


@functools.cache
def load() -> tuple[Signature, ...]:
    """Return all signatures, sorted by id.

    A signature is found by being in a file of this package: there is no list to edit.
    """
    return tuple(sorted((*_over_logs(), *_over_relations()), key=lambda signature: signature.id))


def _over_logs() -> Iterator[Signature]:
    """Yield those in TOML. They are taken as they are: a test checks them like users' cards."""
    for file in files(__name__).iterdir():
        if file.name.endswith(".toml"):
            document = tomli.loads(file.read_text(encoding="utf-8"))
            yield from map(signature_of, document["signature"])


def _over_relations() -> Iterator[Signature]:
    """Yield the ``SIGNATURE`` of each module, whose story is its docstring."""
    for info in pkgutil.walk_packages(relations.__path__, f"{relations.__name__}."):
        module = importlib.import_module(info.name)
        if not info.ispkg:
            yield replace(module.SIGNATURE, story=(module.__doc__ or "").strip())
