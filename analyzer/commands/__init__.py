"""The commands, one module each: its docstring is its help.

A module is imported when its command is called: what reads evidence and knows hangs takes
several times as long to import as ``whyhang --help`` takes.
"""

import importlib
from types import ModuleType

from whyhang.analyzer import interrupts

COMMANDS = {
    "diagnose": "Say why a job hangs: from its processes, or from what it left behind.",
    "show": "Show a report again that was kept as JSON, in any format.",
    "watch": "Watch a job, and diagnose it when it does not go on any more.",
    "diff": "Compare two reports: what moved and what stayed, or what two incidents share.",
    "collect": "Only collect: keep the evidence of a job that hangs now, to analyze it elsewhere.",
    "demo": "Start a small job that really hangs, and diagnose it.",
    "explain": "Say what a signature means, how it is recognised and what to do.",
    "cards": "List your own signatures (TOML cards), test them, or print one to start from.",
    "config": "Check your configuration, or show what is in use and where it stands.",
    "doctor": "Say what you can read on this machine, and how to get what is missing.",
    "mcp": "Serve diagnoses to a program that speaks the Model Context Protocol.",
    "schema": "Print the JSON Schema of what --format json prints.",
    "completion": "Print what bash, zsh or fish needs to complete words with the tab key.",
}
"""The commands by name, each with the first line of its help."""


def load(name: str) -> ModuleType:
    """Import the module of a command: ``add_arguments`` declares its options, ``run`` does it."""
    with interrupts.while_importing():
        return importlib.import_module(f"{__name__}.{name}")
