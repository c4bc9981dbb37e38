"""The options of all commands by the commands' names."""

import argparse
from collections.abc import Iterator, Mapping

from whyhang.analyzer.commands import COMMANDS, load
from whyhang.analyzer.configuration.defaults import Options, options_of


class AllOptions(Mapping[str, Options]):
    """The options of each command, whose module is imported when they are asked for."""

    def __getitem__(self, name: str) -> Options:
        """Return the options of one command."""
        if name not in COMMANDS:
            raise KeyError(name)
        parser = argparse.ArgumentParser(add_help=False)
        load(name).add_arguments(parser)
        return options_of(parser)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of all commands."""
        return iter(COMMANDS)

    def __len__(self) -> int:
        """Return how many commands there are."""
        return len(COMMANDS)
