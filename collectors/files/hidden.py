"""A bundle with pseudonyms in place of names, in its files as in their names.

What the readers need stays: the shape of each file, its lines, ranks, pids, functions, line
numbers and times, so that the bundle is diagnosed as before.
"""

import json
import pickle
import re
from collections.abc import Iterable, Mapping

from whyhang.analyzer.facts import replace
from whyhang.analyzer.pseudonyms import Pseudonyms
from whyhang.collectors.files.bundle import Bundle, Entry
from whyhang.collectors.flight_recorder.pickles import BadPickleError, UnsafePickleError, load

_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"(\s*:)?')
_PATHS = {"filename", "short_filename", "file", "path", "cwd", "source"}
_HOSTS = {"host", "hostname"}
_CODE = {"name", "module", "thread_name", "role", "kind", "about", "whyhang", "state", "wchan"}
"""Fields of JSON whose texts are functions, threads, or words of whyhang."""

_PICKLE = b"\x80"


def with_pseudonyms(bundle: Bundle, names: Pseudonyms) -> Bundle:
    """Return the bundle as it may be sent to strangers.

    A recorder dump that cannot be read cannot be searched for names: it is left out, and the
    manifest says so.
    """
    manifest = bundle.manifest
    hosts = {entry.host for entry in manifest.files if entry.host}
    names.learn(_searchable(bundle.files))
    hosts |= {clock.host for clock in manifest.clocks}
    names.add(hosts=hosts | ({manifest.host} if manifest.host else set()))
    files: dict[str, bytes] = {}
    entries: list[Entry] = []
    lost: list[str] = []
    for entry in manifest.files:
        data = _content(bundle.files[entry.path], names)
        name = _free(names.path(entry.path), files)
        if data is None:
            lost.append(name)
            continue
        files[name] = data
        host = names.host(entry.host) if entry.host else entry.host
        entries.append(replace(entry, path=name, host=host))
    touched = [names.text(text) for text in manifest.touched]
    touched += [f"left out, since it cannot be read to replace names: {name}" for name in lost]
    host = names.host(manifest.host) if manifest.host else None
    clocks = tuple(replace(clock, host=names.host(clock.host)) for clock in manifest.clocks)
    changed = replace(
        manifest, host=host, touched=tuple(touched), clocks=clocks, files=tuple(entries)
    )
    return Bundle(manifest=changed, files=files)


def _free(name: str, taken: Mapping[str, bytes]) -> str:
    """Keep two files apart whose names became one."""
    while name in taken:
        stem, dot, end = name.rpartition(".")
        name = f"{stem}-2{dot}{end}" if dot else f"{name}-2"
    return name


def _searchable(files: Mapping[str, bytes]) -> Iterable[str]:
    for name, data in files.items():
        yield name
        if not data.startswith(_PICKLE):
            text = data.decode("utf-8", "surrogateescape")
            yield text.replace("\\n", "\n") if data.lstrip()[:1] in {b"{", b"["} else text


def _content(data: bytes, names: Pseudonyms) -> bytes | None:
    if data.startswith(_PICKLE):
        try:
            dump = load(data)
        except (BadPickleError, UnsafePickleError):
            return None
        return pickle.dumps(_each(dump, None, names), protocol=2)
    text = data.decode("utf-8", "surrogateescape")
    made = _json(text, names) if data.lstrip()[:1] in {b"{", b"["} else names.text(text)
    return made.encode("utf-8", "surrogateescape")


def _json(text: str, names: Pseudonyms) -> str:
    """Replace names inside the strings of JSON; all around them stays as it is."""
    key = ""

    def replaced(match: re.Match[str]) -> str:
        nonlocal key
        if match[2] is not None:  # a key, which the next texts belong to
            key = match[1]
            return f'"{_written("", key, names)}"{match[2]}'
        if key in _CODE:
            return match[0]
        return f'"{_written(key, match[1], names)}"'

    return _STRING.sub(replaced, text)


def _written(key: str, inside: str, names: Pseudonyms) -> str:
    """Replace names in a string as JSON writes it, in the way it was written."""
    if "\\" not in inside:
        return _value(key, inside, names)
    try:
        value = json.loads(f'"{inside}"', strict=False)
    except ValueError:  # not JSON after all
        return names.text(inside)
    return json.dumps(_value(key, value, names), ensure_ascii=inside.isascii())[1:-1]


def _value(key: str, value: str, names: Pseudonyms) -> str:
    if key in _PATHS:
        return names.path(value)
    if key in _HOSTS:
        return names.host(value)
    return names.text(value)


def _each(value: object, key: object, names: Pseudonyms) -> object:
    if isinstance(value, str):
        field = key if isinstance(key, str) else ""
        return value if field in _CODE else _value(field, value, names)
    if isinstance(value, list):
        return [_each(each, key, names) for each in value]
    if isinstance(value, dict):
        return {name: _each(each, name, names) for name, each in value.items()}
    return value
