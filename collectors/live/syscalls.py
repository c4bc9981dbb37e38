"""The system call that a thread waits in, by the number that /proc/PID/syscall gives (proc(5))."""

import os
from importlib.resources import files

from whyhang.analyzer.facts import NO_LIMIT
from whyhang.analyzer.toml import tomllib

_TABLE = tomllib.loads(files(__package__).joinpath("syscalls.toml").read_text(encoding="utf-8"))
_ON_DESCRIPTOR = frozenset(_TABLE["on_descriptor"])
_FUTEX_PRIVATE = 0x80
"""A bit of the operation of futex(2)."""
_MILLISECONDS: dict[str, int] = _TABLE["milliseconds"]
_POINTERS: dict[str, int] = _TABLE["pointers"]
_UNLIMITED = frozenset(_TABLE["unlimited"])
_MACHINES = {"arm64": "aarch64"}
"""Other names of machines."""


def parse_syscall(text: str, machine: str | None = None) -> tuple[str, int | None] | None:
    """Return the name of the call and the descriptor it works on, or None if in no known call.

    /proc/PID/syscall (proc(5)) holds the number, six arguments, stack pointer and program counter;
    "running" where the thread is on a processor, "-1" where it waits outside a call (a page
    fault). It may be read by whoever may attach to the process.
    """
    field = text.split()
    machine = machine or os.uname().machine
    table: dict[str, str] = _TABLE.get(_MACHINES.get(machine, machine), {})
    name = table.get(field[0]) if field else None
    if name is None:  # "running", too
        return None
    return name, int(field[1], 16) if name in _ON_DESCRIPTOR and len(field) > 1 else None


def is_shared_futex(text: str, machine: str | None = None) -> bool:
    """Return whether a thread waits for a lock that processes share: none of its process alone."""
    name, _ = parse_syscall(text, machine) or ("", None)
    field = text.split()
    return name == "futex" and len(field) > 2 and not int(field[2], 16) & _FUTEX_PRIVATE


def limit_of(text: str, machine: str | None = None) -> float | None:
    """Return the seconds after which a wait for data ends at the latest, by its arguments.

    ``NO_LIMIT`` where it has none; None where it is no such wait, or its limit lies in memory.
    """
    name, _ = parse_syscall(text, machine) or ("", None)
    arguments = [int(word, 16) for word in text.split()[1:7]] if name else []
    if name in _UNLIMITED:
        return NO_LIMIT
    if name in _POINTERS and len(arguments) > _POINTERS[name]:
        return None if arguments[_POINTERS[name]] else NO_LIMIT
    if name not in _MILLISECONDS or len(arguments) <= _MILLISECONDS[name]:
        return None
    number = arguments[_MILLISECONDS[name]] & 0xFFFFFFFF  # an int: -1 is no limit
    return NO_LIMIT if number >> 31 else number / 1000
