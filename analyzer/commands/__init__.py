"""One command, one module: its docstring is its help."""

from __future__ import annotations

import argparse
from typing import Protocol

from whyhang.analyzer.commands.cards import Cards
from whyhang.analyzer.commands.collect import Collect
from whyhang.analyzer.commands.demo import Demo
from whyhang.analyzer.commands.diagnose import Diagnose
from whyhang.analyzer.commands.doctor import Doctor
from whyhang.analyzer.commands.explain import Explain
from whyhang.analyzer.commands.schema import PrintSchema


class Command(Protocol):
    """What the command line asks of a command."""

    name: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare the options."""

    def run(self, options: argparse.Namespace) -> int:
        """Do it and return the exit code."""


COMMANDS: tuple[Command, ...] = (
    Diagnose(),
    Collect(),
    Demo(),
    Explain(),
    Cards(),
    Doctor(),
    PrintSchema(),
)
