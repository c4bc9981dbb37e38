"""Find all mistakes of a configuration file, each with its line."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from whyhang.analyzer.configuration.defaults import Options, of_any, of_default
from whyhang.analyzer.configuration.files import File, Mistake
from whyhang.analyzer.configuration.settings import settings
from whyhang.analyzer.toml_lines import Path as Keys


def mistakes(
    file: File, names: Collection[str], options: Mapping[str, Options]
) -> tuple[Mistake, ...]:
    """Return what is wrong, in the order of lines.

    ``names`` are all signatures and categories, ``options`` those of each command.
    """
    in_use = settings([file])
    mistakes = [
        *in_use.mistakes,
        *in_use.misnamed(names),
        *_defaults(file, options),
    ]
    return tuple(sorted(mistakes, key=lambda mistake: mistake.line or 0))


def _defaults(file: File, options: Mapping[str, Options]) -> Iterator[Mistake]:
    table = file.table.get("defaults")
    if not isinstance(table, dict):
        return
    everywhere = of_any(options)
    for key, value in table.items():
        if isinstance(value, dict):
            if key not in options:
                yield file.no_such(f"there is no command {key}", options, "defaults", key)
                continue
            for name, each in value.items():
                yield from _default(file, options[key], name, each, ("defaults", key, name))
        else:
            yield from _default(file, everywhere, key, value, ("defaults", key))


def _default(file: File, known: Options, key: str, value: Any, at: Keys) -> Iterator[Mistake]:
    if key not in known:
        yield file.no_such(f"there is no option --{key}", known, *at)
        return
    made = of_default(known[key], key, value, own=file.own)
    if isinstance(made, str):
        yield file.mistake(made, *at)
