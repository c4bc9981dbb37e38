"""The system call that a thread waits in, by the number that /proc/PID/syscall gives (proc(5))."""

import os

from whyhang.analyzer.facts import NO_LIMIT, Record
from whyhang.analyzer.toml import table

_TABLE = table(__package__, "syscalls.toml")
_ON_DESCRIPTOR = frozenset(_TABLE["on_descriptor"])
_MILLISECONDS: dict[str, int] = _TABLE["milliseconds"]
_POINTERS: dict[str, int] = _TABLE["pointers"]
_UNLIMITED = frozenset(_TABLE["unlimited"])
_MACHINES = {"arm64": "aarch64"}
"""Other names of machines."""
_FUTEX_PRIVATE, _FUTEX_WAYS, _FUTEX_WAIT_BITSET = 0x80, 0x17F, 9
"""Of the operation of futex(2): a bit, what it does by which clock, a wait with a limit."""
_MONOTONIC = _TIMER_ABSTIME = 1
"""Of clock_nanosleep(2)."""


class SystemCall(Record):
    """What a thread waits in; without a name where it is in no known call."""

    name: str = ""
    arguments: tuple[int, ...] = (0,) * 6

    @property
    def descriptor(self) -> int | None:
        """The descriptor that it works on."""
        return self.arguments[0] if self.name in _ON_DESCRIPTOR else None

    @property
    def shared(self) -> bool:
        """Whether it waits for a lock that processes share: none of its process alone."""
        return self.name == "futex" and not self.arguments[1] & _FUTEX_PRIVATE

    @property
    def limit(self) -> float | None:
        """The seconds after which a wait for data ends at the latest, by its arguments.

        ``NO_LIMIT`` where it has none; None where it is no such wait, or its limit lies in memory.
        """
        if self.name in _UNLIMITED:
            return NO_LIMIT
        if self.name in _POINTERS:
            return None if self.arguments[_POINTERS[self.name]] else NO_LIMIT
        if self.name not in _MILLISECONDS:
            return None
        number = self.arguments[_MILLISECONDS[self.name]] & 0xFFFFFFFF  # an int: -1 is no limit
        return NO_LIMIT if number >> 31 else number / 1000

    @property
    def end(self) -> int | None:
        """Where in memory stands at which time of the monotonic clock a sleep ends."""
        first, flags, third, fourth, *_ = self.arguments
        if self.name == "futex" and flags & _FUTEX_WAYS == _FUTEX_WAIT_BITSET:
            return fourth or None
        by_time = first == _MONOTONIC and flags & _TIMER_ABSTIME
        return third if self.name == "clock_nanosleep" and by_time else None


def parse_syscall(text: str, machine: str | None = None) -> SystemCall:
    """Read /proc/PID/syscall (proc(5)): the number, six arguments, stack pointer, program counter.

    It says "running" where the thread is on a processor, "-1" where it waits outside a call (a page
    fault). It may be read by whoever may attach to the process.
    """
    number, *words = text.split() or [""]
    machine = machine or os.uname().machine
    table: dict[str, str] = _TABLE.get(_MACHINES.get(machine, machine), {})
    arguments = tuple(int(word, 16) for word in (*words, *["0"] * 6)[:6])
    return SystemCall(name=table.get(number, ""), arguments=arguments)
