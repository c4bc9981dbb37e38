"""The command line: pick a command, run it, return its exit code.

``whyhang TARGET…`` is short for ``whyhang diagnose TARGET…``. Only this package of commands
knows collectors, analysis, signatures and reports at once.
"""

import argparse
import contextlib
import errno
import os
import platform
import sys
from collections.abc import Sequence
from typing import NoReturn

from whyhang import __version__
from whyhang.analyzer.commands import COMMANDS, load
from whyhang.analyzer.commands.streams import prepare
from whyhang.analyzer.configuration import config_files, defaults
from whyhang.analyzer.errors import TargetError, WhyhangError
from whyhang.analyzer.reports.outgoing import plain

DEFAULT = "diagnose"
USAGE_ERROR = 2
INTERRUPTED = 130
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}
"""What writing to an open file may answer, where no file is named."""

DESCRIPTION = """\
Say which rank, which line and which collective holds a hung PyTorch job up.

  whyhang PID             a job that hangs now: any of its processes on this host
  whyhang --slurm JOB     the same on all its hosts; --hosts 'n[1-8]' on those, by ssh
  whyhang watch PID       look at a job now and then, and say when it hangs
  whyhang PATH...         what it left: logs, stack dumps, recorder dumps, archives, bundles
  whyhang                 the recorder dumps that torch has written in its usual places
"""


CONFIG_HELP = "read this whyhang.toml, too; it counts more than others (`whyhang config --help`)"


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; never raises for what a user did."""
    if hasattr(sys, "set_int_max_str_digits"):
        # Lines are cut to some kilobytes: their longest number is quickly read, and no error.
        sys.set_int_max_str_digits(0)
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        prepare()
        if "_ARGCOMPLETE" in os.environ:  # a shell asks what could follow
            from whyhang.analyzer.commands import completion  # noqa: PLC0415 - as late as a command

            completion.answer(parser, DEFAULT)
        arguments = _with_command(arguments)
        options = parser(arguments[0]).parse_args(_with_defaults(arguments))
        code = int(options.run(options))
        sys.stdout.flush()
    except SystemExit as stop:  # argparse ends so, after printing usage or help
        return stop.code if isinstance(stop.code, int) else USAGE_ERROR
    except WhyhangError as error:
        print(f"whyhang: {plain(error.message)}", file=sys.stderr)
        if error.remedy:
            print(f"  {plain(error.remedy)}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("whyhang: interrupted; nothing of the job was changed", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        if error.filename is not None or error.errno not in NO_ROOM:
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # what is left to write has no place
        print(f"whyhang: standard output takes nothing: {error.strerror}", file=sys.stderr)
        print("  Send the report elsewhere: -o FILE.", file=sys.stderr)
        return 1
    return code


def _with_command(arguments: list[str]) -> list[str]:
    """Put the default command in front, unless one is named or only help is asked for."""
    if arguments and arguments[0] in {*COMMANDS, "-h", "--help", "--version"}:
        return arguments
    return [DEFAULT, *arguments]


def _with_defaults(arguments: list[str]) -> list[str]:
    """Put what is configured for a command in front of its own words, which count more."""
    name, *words = arguments
    if name not in COMMANDS:
        return arguments
    config_files.chosen.set(_named_configuration(words))
    configured = [] if name == "config" else config_files.files()
    if not any("defaults" in file.table for file in configured):
        return arguments
    from whyhang.analyzer.commands.config import options_of_commands  # noqa: PLC0415 - nor without

    more, wrong = defaults.words_of(configured, name, options_of_commands())
    for mistake in wrong:
        print(f"whyhang: not used: {plain(str(mistake))}", file=sys.stderr)
    return [name, *more, *words]


def _named_configuration(words: Sequence[str]) -> str | None:
    """Return what --config names, before the other words can be understood."""
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    first.add_argument("--config")
    with contextlib.suppress(argparse.ArgumentError):
        named, _ = first.parse_known_args(words)
        return None if named.config is None else str(named.config)
    return None


class _Parser(argparse.ArgumentParser):
    """Says a mistake in the arguments like any other: what is wrong, and where help is."""

    def error(self, message: str) -> NoReturn:
        raise TargetError(message, f"`{self.prog} --help` tells what it takes.")


class _Version(argparse.Action):
    """Prints the versions that a report of a mistake needs."""

    def __call__(self, *_: object, **__: object) -> NoReturn:
        from importlib import metadata  # noqa: PLC0415 - no other command needs it

        def version(name: str) -> str:
            try:
                return f"{name} {metadata.version(name)}"
            except metadata.PackageNotFoundError:
                return f"no {name}"

        uses = ", ".join(version(name) for name in ("py-spy", "hyperscan"))
        print(f"whyhang {__version__} ({uses}, Python {platform.python_version()})")
        raise SystemExit(0)


def parser(*named: str) -> argparse.ArgumentParser:
    """Make the parser of the named commands, with their options; of all, where none is named."""
    whole = _Parser(
        prog="whyhang",
        description=DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="whyhang COMMAND --help tells the options of each; diagnose is the default command.",
    )
    whole.add_argument(
        "--version", action=_Version, nargs=0, help="show the version, and those of what it uses"
    )
    commands = whole.add_subparsers(metavar="COMMAND", required=True)
    for name in [each for each in COMMANDS if each in named] or COMMANDS:
        sub = commands.add_parser(
            name,
            help=COMMANDS[name].rstrip("."),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if name in named:
            command = load(name)
            sub.description = (command.__doc__ or "").rstrip()
            command.add_arguments(sub)
            sub.add_argument("--config", metavar="FILE", help=CONFIG_HELP)
            sub.set_defaults(run=command.run)
    return whole
