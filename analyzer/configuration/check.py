"""Find all mistakes of a configuration file, each with its line."""

import difflib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from whyhang.analyzer.configuration.defaults import Options, of_default
from whyhang.analyzer.configuration.files import File, Mistake
from whyhang.analyzer.configuration.settings import BY_SIGNATURE, KEYS, ONLY_OWN, TABLES, settings
from whyhang.analyzer.toml_lines import Path as Keys


def mistakes(
    file: File, names: Collection[str], options: Mapping[str, Options]
) -> tuple[Mistake, ...]:
    """Return what is wrong, in the order of lines.

    ``names`` are all signatures and categories, ``options`` those of each command.
    """
    found = [*settings([file]).mistakes, *_unknown(file, names), *_defaults(file, options)]
    return tuple(sorted(found, key=lambda mistake: mistake.line or 0))


def _unknown(file: File, names: Collection[str]) -> Iterator[Mistake]:
    for name, table in file.table.items():
        if name not in TABLES:
            yield _no_such(file, f"there is no table {name}", name, TABLES, (name,))
            continue
        if not isinstance(table, dict):
            continue
        for key in table:
            if name in BY_SIGNATURE and key not in names and key != "default":
                text = f"there is no signature or category {key}"
                yield _no_such(file, text, key, names, (name, key))
            elif name in KEYS and key not in KEYS[name]:
                text = f"there is no {name}.{key}"
                yield _no_such(file, text, key, KEYS[name], (name, key))
            elif not file.own and (name, key) in ONLY_OWN:
                text = f"{name}.{key} counts in your own configuration or with --config only"
                yield file.mistake(text, name, key)
    yield from _no_folders(file)


def _no_folders(file: File) -> Iterator[Mistake]:
    folders = settings([file]).card_folders()
    for number, folder in enumerate(folders):
        if not Path(folder).is_dir():
            text = f"there is no folder {folder}"
            line = file.lines.get(
                ("cards", "folders", number), file.lines.get(("cards", "folders"))
            )
            yield Mistake(path=file.path, text=text, line=line)


def _defaults(file: File, options: Mapping[str, Options]) -> Iterator[Mistake]:
    table = file.table.get("defaults")
    if not isinstance(table, dict):
        return
    everywhere: Options = {}
    for known in options.values():
        for name, action in known.items():
            everywhere.setdefault(name, action)
    for key, value in table.items():
        if isinstance(value, dict):
            if key not in options:
                text = f"there is no command {key}"
                yield _no_such(file, text, key, options, ("defaults", key))
                continue
            for name, each in value.items():
                yield from _default(file, options[key], name, each, ("defaults", key, name))
        else:
            yield from _default(file, everywhere, key, value, ("defaults", key))


def _default(file: File, known: Options, key: str, value: Any, at: Keys) -> Iterator[Mistake]:
    if key not in known:
        yield _no_such(file, f"there is no option --{key}", key, known, at)
        return
    made = of_default(known[key], key, value, own=file.own)
    if isinstance(made, str):
        yield file.mistake(made, *at)


def _no_such(file: File, text: str, name: str, known: Collection[str], at: Keys) -> Mistake:
    close = difflib.get_close_matches(name, known, n=1)
    return file.mistake(f"{text}; did you mean {close[0]}?" if close else text, *at)
