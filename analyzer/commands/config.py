"""Check your configuration, or show what is in use and where it stands.

Files named whyhang.toml are read, the later one counting where two say something of the same:
in ~/.config/whyhang ($XDG_CONFIG_HOME), in the working directory, and the one that --config or
WHYHANG_CONFIG names. config.toml in the user's folder is read as well.

whyhang config check [FILE...]   say each mistake with its line; exit code 1 if there is one
whyhang config show              print all values in use, each with its file and line
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands import COMMANDS, load
from whyhang.analyzer.commands.output import with_tilde
from whyhang.analyzer.configuration.config_files import NAME, ConfigFile, files, home, read
from whyhang.analyzer.configuration.defaults import Options, options_of
from whyhang.analyzer.configuration.settings import TABLES, mistakes, settings
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.reports.outgoing import plain
from whyhang.analyzer.toml_lines import Mistake


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare what to do, and with which files."""
    parser.add_argument("action", nargs="?", choices=("check", "show"), default="show")
    parser.add_argument("files", nargs="*", metavar="FILE", help="files to check")


def run(options: argparse.Namespace) -> int:
    """Check or show."""
    if options.action == "check":
        return _check(options.files)
    if options.files:
        raise TargetError("`whyhang config show` takes no file", "Name one with --config.")
    sys.stdout.write(_shown())
    return 0


def _check(names: list[str]) -> int:
    """Say each mistake of the files that are named, or of all in use."""
    for name in names:
        if not Path(name).is_file():
            raise TargetError(f"{name} is no file", "Give the path of a whyhang.toml.")
    configured = [read(Path(name)) for name in names] if names else files()
    if not configured:
        sys.stdout.write(_nowhere())
        return 0
    mistakes_by_file = _mistakes(configured)
    for file, own in zip(configured, mistakes_by_file, strict=True):
        lines = [plain(str(mistake)) for mistake in own] or [f"{plain(file.path)}: good"]
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 1 if any(mistakes_by_file) else 0


def _mistakes(configured: Sequence[ConfigFile]) -> list[tuple[Mistake, ...]]:
    names, options = known().names, options_of_commands()
    return [mistakes(file, names, options) for file in configured]


def options_of_commands() -> dict[str, Options]:
    """Return the options of each command."""
    parsers = {name: argparse.ArgumentParser(add_help=False) for name in COMMANDS}
    for name, parser in parsers.items():
        load(name).add_arguments(parser)
    return {name: options_of(parser) for name, parser in parsers.items()}


def _nowhere() -> str:
    folder = home()
    own = f"{with_tilde(folder)}/{NAME}, " if folder is not None else ""
    return f"There is no configuration: no {own}no {NAME} here, and none was named.\n"


def _shown() -> str:
    """Write what is in use as TOML, with the place of each value behind it."""
    configured = files()
    if not configured:
        return _nowhere()
    wrong = _mistakes(configured)
    in_use = settings([file.without(own) for file, own in zip(configured, wrong, strict=True)])
    lines = [f"# read: {', '.join(with_tilde(file.path) for file in configured)}\n"]
    said = [entry for entry in in_use.entries if entry.value not in ({}, ())]
    for table in TABLES:
        entries = [entry for entry in said if entry.table == table]
        lines += [f"\n[{table}]\n"] if entries else []
        lines += [
            f"{_key(entry.key)} = {_toml(entry.value)}  # {with_tilde(entry.file)}:{entry.line}\n"
            for entry in entries
        ]
    lines += [f"# not used: {mistake}\n" for own in wrong for mistake in own]
    return plain("".join(lines))


def _key(key: str) -> str:
    bare = key.replace("-", "").replace("_", "").isalnum() and key.isascii()
    return key if bare else json.dumps(key)


def _toml(value: Any) -> str:
    """Write a value as TOML does; a text of JSON is one of TOML."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{_key(k)} = {_toml(v)}" for k, v in value.items()) + " }"
    return json.dumps(value, ensure_ascii=False, default=str)
