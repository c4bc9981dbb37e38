"""Finds the rules that speak of a frame: an index over the table, built once for each table."""

import functools
import re

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.stacks.kinds import Layer, WaitRule, last_name
from whyhang.analyzer.stacks.usercode import Origin, origin_of_file

_LIBC = re.compile(r"^_*(?:GI_+)?_*(?:libc_|new_)?")
_TAIL = re.compile(r"(?:@|\.(?:constprop|isra|cold|part|lto_priv)\b).*$")
_WIDE = re.compile(r"(?:_time)?64$")
# Order of the rules of one frame: what it is for, then what it is part of, then how it waits.
_ORDER = {Layer.PURPOSE: 0, Layer.CONTEXT: 1, Layer.MECHANISM: 2}


class FrameIndex:
    """Rules by function name. Results are kept by frame: most stacks of a job are alike."""

    def __init__(self, rules: tuple[WaitRule, ...]) -> None:
        self.rules = rules
        self._python: dict[str, list[WaitRule]] = {}
        self._anywhere: list[WaitRule] = []  # any function of a file or folder
        self._exact: dict[str, list[WaitRule]] = {}
        self._prefixes: list[tuple[str, WaitRule]] = []
        self._classes: list[tuple[str, WaitRule]] = []  # any method of a class
        for rule in sorted(rules, key=lambda r: _ORDER[r.layer]):
            for function in rule.functions:
                if not rule.native and function == "*":
                    self._anywhere.append(rule)
                elif not rule.native and function.endswith(".*"):
                    self._classes.append((function[:-1].removeprefix("*"), rule))
                elif not rule.native:
                    self._python.setdefault(function, []).append(rule)
                elif function.endswith("*"):
                    self._prefixes.append((symbol(function[:-1]), rule))
                else:
                    self._exact.setdefault(symbol(function), []).append(rule)
        self._native = functools.lru_cache(maxsize=65536)(self._find_native)
        self._by_file = functools.lru_cache(maxsize=65536)(self._find_python)

    def find(self, frame: Frame) -> tuple[WaitRule, ...]:
        """Return the rules that speak of this frame: purposes, then contexts, then mechanisms."""
        if frame.native:
            return self._native(frame.function, frame.file)
        name = last_name(frame)
        rules = self._by_file(name if name in self._python else "", frame.file)
        methods = [r for tail, r in self._classes if frame.function[: -len(name)].endswith(tail)]
        return (*rules, *methods) if methods else rules

    def _find_python(self, name: str, file: str) -> tuple[WaitRule, ...]:
        rules = self._python.get(name, []) + self._anywhere
        users = origin_of_file(file) is Origin.USER
        return tuple(
            rule
            for rule in rules
            # A user's folder may be called "requests" as well.
            if _in_file(file, rule.file) and not (users and "*" in rule.functions)
        )

    def _find_native(self, function: str, file: str) -> tuple[WaitRule, ...]:
        name = symbol(function)
        rules = list(self._exact.get(name, ()))
        rules += [rule for prefix, rule in self._prefixes if name.startswith(prefix)]
        return tuple(rule for rule in rules if rule.file in file)


_INDEXES: dict[int, FrameIndex] = {}


def index_of(rules: tuple[WaitRule, ...]) -> FrameIndex:
    """Return the index of a table. Tables are compared by identity: hashing one is slow."""
    index = _INDEXES.get(id(rules))
    if index is None or index.rules is not rules:
        index = _INDEXES[id(rules)] = FrameIndex(rules)
    return index


@functools.lru_cache(maxsize=65536)
def symbol(function: str) -> str:
    """Reduce a native name to what rules are written in.

    ``__GI___poll``, ``poll@@GLIBC_2.2.5`` and ``__libc_poll`` are ``poll``, ``open64`` is
    ``open``; arguments and template parameters at the end go, as do marks of the compiler
    (``.constprop.0``).
    """
    name = function.partition("(")[0] if not function.startswith("(") else function
    name = _TAIL.sub("", name).rstrip()
    if "::" not in name:
        return _WIDE.sub("", _LIBC.sub("", name)) or name
    return name.partition("<")[0] or name


def _in_file(file: str, tail: str) -> bool:
    if tail.endswith("/"):
        return file.startswith(tail) or f"/{tail}" in file
    return not tail or file == tail or file.endswith("/" + tail)
