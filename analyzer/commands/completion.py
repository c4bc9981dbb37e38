"""Print what bash, zsh or fish needs to complete words with the tab key.

bash    whyhang completion bash >~/.local/share/bash-completion/completions/whyhang
zsh     whyhang completion zsh >~/.zfunc/_whyhang    (with ~/.zfunc in fpath, before compinit)
fish    whyhang completion fish >~/.config/fish/completions/whyhang.fish
"""

import argparse
import os
import sys
from collections.abc import Callable, Iterable

import argcomplete
from argcomplete.shell_integration import shellcode

from whyhang.analyzer.commands import COMMANDS

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the shell."""
    parser.add_argument("shell", choices=SHELLS, help="the shell that completes")


def run(options: argparse.Namespace) -> int:
    """Print the shell's part; it calls whyhang for the words."""
    sys.stdout.write(shellcode(["whyhang"], shell=options.shell))
    return 0


def answer(parser_of: Callable[..., argparse.ArgumentParser], default: str) -> None:
    """Say what may follow what was typed so far, which the environment holds, and end.

    The default command needs not be typed, so it is put in where it is left out.
    """
    typed = os.environ.get("COMP_LINE", "")
    program, *words = typed.split() or ["whyhang"]
    first = words[0] if words else ""
    may_be_command = not first.startswith("-") and typed.endswith(first)
    if first not in COMMANDS and not may_be_command:
        rest = typed.lstrip().removeprefix(program)
        os.environ["COMP_LINE"] = f"{program} {default}{rest}"
        point = int(os.environ.get("COMP_POINT", len(typed)))
        os.environ["COMP_POINT"] = str(point + len(f" {default}"))
        first = default
    parser = parser_of(first)
    for action in _arguments(parser):
        if names := _NAMES.get(action.dest):
            setattr(action, "completer", names)  # noqa: B010 - argcomplete's own attribute
    argcomplete.autocomplete(parser)


def _arguments(parser: argparse.ArgumentParser) -> Iterable[argparse.Action]:
    for action in parser._actions:  # noqa: SLF001 - argparse lists them nowhere else
        if isinstance(action, argparse._SubParsersAction):  # noqa: SLF001
            for each in action.choices.values():
                yield from _arguments(each)
        else:
            yield action


def _signatures(**_: object) -> list[str]:
    from whyhang.analyzer.cards.load import known  # noqa: PLC0415 - only where they are asked for

    return sorted({word for each in known().signatures for word in (each.id, each.category)})


def _samples(**_: object) -> list[str]:
    from whyhang.samples.harness import scenario  # noqa: PLC0415 - likewise

    return sorted(scenario.samples())


_NAMES: dict[str, Callable[..., list[str]]] = {"signature": _signatures, "sample": _samples}
