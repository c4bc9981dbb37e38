"""The settings in use: what the files say, put together.

::

    [runbooks]                                   # by a signature's id, its category, or default
    gpu-oom = "https://wiki.example.org/oom"
    default = "https://wiki.example.org/hangs#{signature}"

    [owners]
    nccl-ib-error = "network team, #net-oncall"

    [remedies]                                   # said before those that whyhang knows
    storage-io-blocked = ["Ask #storage to look at the file server {path}."]

    [redaction]
    always = true
    hide = ["projectname"]

    [cards]
    folders = ["cards"]                          # relative to this file

    [defaults]                                   # options of commands
    full = true
"""

import itertools
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from whyhang.analyzer.configuration.config_files import ConfigFile, files
from whyhang.analyzer.configuration.defaults import Options, words_of
from whyhang.analyzer.facts import Gap, Record, Source, grouped, replace
from whyhang.analyzer.findings.signature import Signature
from whyhang.analyzer.toml_lines import Mistake
from whyhang.analyzer.toml_lines import Path as Keys

TABLES: dict[str, str] = {
    "runbooks": "links to runbooks, by signature or category",
    "owners": "whom to call, by signature or category",
    "remedies": "what to do first, by signature or category",
    "redaction": "pseudonyms in what leaves",
    "cards": "folders of cards",
    "defaults": "options of commands",
}
"""The tables of a file, and what they hold."""

TEXT, TEXTS, FLAG = "a text in quotes", "a text or a list of texts", "true or false"

KEYS: dict[str, dict[str, str]] = {
    "redaction": {"always": FLAG, "key_file": TEXT, "hide": TEXTS, "keep": TEXTS},
    "cards": {"folders": TEXTS},
}
"""Tables whose keys are fixed, with what each holds."""

BY_SIGNATURE: dict[str, str] = {"runbooks": TEXT, "owners": TEXT, "remedies": TEXTS}
"""Tables whose keys are signatures and categories, or "default"."""

ALWAYS, KEY_FILE, FOLDERS = ("redaction", "always"), ("redaction", "key_file"), ("cards", "folders")

ONLY_OWN = {KEY_FILE, ("redaction", "keep")}
"""What a file of the working directory does not decide: it would undo somebody's pseudonyms."""


class SettingInUse(Record):
    """A value in use, and the file and line that say so."""

    table: str
    key: str
    value: Any
    file: str
    line: int | None = None


class Settings(Record):
    """All values in use. Texts of ``remedies`` are lists; folders and files are full paths."""

    entries: tuple[SettingInUse, ...] = ()
    mistakes: tuple[Mistake, ...] = ()

    def table(self, name: str) -> dict[str, Any]:
        """Return what one table says."""
        return {entry.key: entry.value for entry in self.entries if entry.table == name}

    def advise(self, signature: Signature) -> Signature:
        """Return the signature with the link, owner and remedies that are configured for it.

        By its id, its category, or for all others; a link that its card has stays.
        """
        keys = dict.fromkeys((signature.id, signature.category, "default"))
        tables = {name: self.table(name) for name in BY_SIGNATURE}
        said = {
            name: [texts[key] for key in keys if key in texts] for name, texts in tables.items()
        }
        link, owner = (
            said[name][0]
            .replace("{signature}", signature.id)
            .replace("{category}", signature.category)
            if said[name]
            else None
            for name in ("runbooks", "owners")
        )
        remedies = (*itertools.chain(*said["remedies"]), *signature.remedies)
        return replace(signature, runbook=signature.runbook or link, owner=owner, remedies=remedies)

    def misnamed(self, names: Collection[str]) -> Iterator[Mistake]:
        """Yield what is said of signatures and categories that are none of these names."""
        for entry in self.entries:
            if entry.table in BY_SIGNATURE and entry.key not in {*names, "default"}:
                at = entry.table, entry.key
                file = ConfigFile(path=entry.file, lines={at: entry.line or 1})
                yield file.no_such(f"there is no signature or category {entry.key}", names, *at)


def gaps_of(mistakes: Iterable[Mistake]) -> list[Gap]:
    """Return what is wrong, for a report: one gap a file."""
    in_order = sorted(mistakes, key=lambda mistake: mistake.line or 0)
    by_file = grouped(in_order, lambda mistake: mistake.path)
    return [
        Gap(
            what=f"reading {path}",
            why="; ".join(f"line {wrong.line or 1}: {wrong.text}" for wrong in own[:3])
            + (f"; and {len(own) - 3} more" if len(own) > 3 else ""),
            cost="what it says there is not used",
            remedy=f"`whyhang config check {path}` says all mistakes",
            source=Source(file=path),
        )
        for path, own in by_file.items()
    ]


def settings(read: Iterable[ConfigFile] | None = None) -> Settings:
    """Put the files together, those of this run if none are given; later ones count more."""
    entries: dict[tuple[str, str], SettingInUse] = {}
    mistakes: list[Mistake] = []
    for file in files() if read is None else read:
        if file.wrong is not None:
            mistakes.append(file.wrong)
        for entry in _entries(file):
            if isinstance(entry, Mistake):
                mistakes.append(entry)
            elif file.own or entry.value or (entry.table, entry.key) != ALWAYS:
                entries[entry.table, entry.key] = entry
            else:  # the working directory does not undo what the user hides
                entries.setdefault(ALWAYS, entry)
    return Settings(entries=tuple(entries.values()), mistakes=tuple(mistakes))


def _entries(file: ConfigFile) -> Iterator[SettingInUse | Mistake]:
    for name, table in file.table.items():
        if name not in TABLES:
            yield file.no_such(f"there is no table {name}", TABLES, name)
            continue
        if not isinstance(table, dict):
            yield file.mistake(f"{name} must be a table: [{name}]", name)
            continue
        for key, value in table.items():
            yield from _checked(file, name, key, value)


def _checked(
    file: ConfigFile, table: str, key: str, value: Any
) -> Iterator[SettingInUse | Mistake]:
    wanted = BY_SIGNATURE.get(table) or KEYS.get(table, {}).get(key)
    if table == "defaults":  # what it may say, the commands know
        yield _entry(file, table, key, value)
    elif wanted is None:
        yield file.no_such(f"there is no {table}.{key}", KEYS[table], table, key)
    elif not file.own and (table, key) in ONLY_OWN:
        text = f"{table}.{key} counts in your own configuration or with --config only"
        yield file.mistake(text, table, key)
    elif (made := _value(value, wanted)) is None:
        yield file.mistake(f"{table}.{key} must be {wanted}", table, key)
    else:
        beside = Path(file.path).parent  # paths are relative to the file that names them
        if (table, key) == KEY_FILE:
            made = str(beside / Path(made).expanduser())
        elif (table, key) == FOLDERS:
            folders = [str(beside / Path(text).expanduser()) for text in made]
            made = tuple(folder for folder in folders if Path(folder).exists())
            for number, folder in enumerate(folders):
                at = (number,) if isinstance(value, list) else ()
                if folder not in made:
                    yield file.mistake(f"there is no folder {folder}", table, key, *at)
        yield _entry(file, table, key, made)


def _entry(file: ConfigFile, table: str, key: str, value: Any) -> SettingInUse:
    line = file.lines.get((table, key))
    return SettingInUse(table=table, key=key, value=value, file=file.path, line=line)


def _value(value: Any, wanted: str) -> Any:
    """Return a value as it is used, or None if it is none of that kind."""
    if wanted == FLAG:
        return value if isinstance(value, bool) else None
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list) or not all(isinstance(t, str) and t.strip() for t in texts):
        return None
    if wanted == TEXTS:
        return tuple(texts)
    return value if isinstance(value, str) else None


def mistakes(
    file: ConfigFile, names: Collection[str], options: Mapping[str, Options]
) -> tuple[Mistake, ...]:
    """Return what is wrong, in the order of lines.

    ``names`` are all signatures and categories, ``options`` those of each command.
    """
    in_use, options = settings([file]), dict(options)
    defaults = (wrong for command in options for wrong in words_of([file], command, options)[1])
    first: dict[Keys, Mistake] = {}
    for mistake in (*in_use.mistakes, *in_use.misnamed(names), *defaults):
        first.setdefault(mistake.at, mistake)  # several commands may say the same
    return tuple(sorted(first.values(), key=lambda mistake: mistake.line or 0))
