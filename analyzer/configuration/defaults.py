"""Options of commands that the configuration sets, as if they stood first on the command line."""

import argparse
from collections.abc import Iterator, Mapping
from typing import Any, TypeAlias

from whyhang.analyzer.configuration.config_files import ConfigFile
from whyhang.analyzer.toml_lines import Mistake

Options: TypeAlias = dict[str, argparse.Action]
"""The options of a command by their long names, without the dashes."""

NEVER = {"help", "config", "version", "output"}
"""Options that are for one run, or that say where to read these."""

HARMLESS = {
    *("format", "full", "exit-code", "redact", "cards"),
    *("looks", "interval", "native", "timeout", "no-store"),
}
"""What a file of the working directory may set: nothing that writes, sends, or starts anything."""


def options_of(parser: argparse.ArgumentParser) -> Options:
    """Return the options of a command's parser."""
    actions = parser._option_string_actions  # noqa: SLF001 - argparse tells it nowhere else
    return {
        name.removeprefix("--"): action
        for name, action in actions.items()
        if name.startswith("--") and name.removeprefix("--") not in NEVER
    }


def words_of(
    files: list[ConfigFile], command: str, options: Mapping[str, Options]
) -> tuple[list[str], list[Mistake]]:
    """Return the words to put in front of a command's own, and what is wrong with others.

    ``options`` are those of each command; of others they are asked for where a default is unknown.
    """
    known, anywhere = options[command], {name for each in options.values() for name in each}
    words: dict[str, list[str]] = {}
    wrong: list[Mistake] = []
    for file in files:
        for at, key, value in _given(file, command):
            if isinstance(value, dict):
                if key not in options:
                    wrong.append(file.no_such(f"there is no command {key}", options, *at))
            elif key in known:
                made = of_default(known[key], key, value, own=file.own)
                if isinstance(made, str):
                    wrong.append(file.mistake(made, *at))
                else:
                    words[key] = made
            elif len(at) > 2:  # of this very command
                wrong.append(file.no_such(f"{command} has no option --{key}", known, *at))
            elif key not in anywhere:
                wrong.append(file.no_such(f"there is no option --{key}", anywhere, *at))
    return [word for each in words.values() for word in each], wrong


def _given(file: ConfigFile, command: str) -> Iterator[tuple[tuple[str, ...], str, Any]]:
    """Yield the defaults for all commands and the tables of others, then those of this one."""
    table = file.table.get("defaults")
    if not isinstance(table, dict):
        return
    for key, value in table.items():
        if not isinstance(value, dict) or key != command:
            yield ("defaults", key), key, value
    own = table.get(command)
    if isinstance(own, dict):
        for key, value in own.items():
            yield ("defaults", command, key), key, value


def of_default(action: argparse.Action, key: str, value: Any, *, own: bool) -> list[str] | str:
    """Return the words that a default stands for, or what is wrong with it."""
    if not own and key not in HARMLESS:
        return f"--{key} counts in your own configuration or with --config only"
    if action.nargs == 0:
        if not isinstance(value, bool):
            return f"{key} must be true or false"
        return [f"--{key}"] if value else []
    values = value if isinstance(value, list) else [value]
    if any(isinstance(v, bool) or not isinstance(v, str | int | float) for v in values):
        return f"{key} must be a text or a number"
    if len(values) > 1 and not isinstance(action.default, list):
        return f"{key} takes one value"
    for each in map(str, values):
        if action.choices is not None and each not in action.choices:
            return f"{key} must be one of {', '.join(map(str, action.choices))}"
        if callable(action.type):
            try:
                action.type(each)
            except (argparse.ArgumentTypeError, TypeError, ValueError) as error:
                return f"{key}: {error}"
    return [f"--{key}={each}" for each in values]
