"""The host of a file by its name, where a host of that name is known from elsewhere.

"dmesg-gpu-b17.txt" and "gpu-b17/kern.log" are of the host gpu-b17 if some line names that one. A
name of the same make ("gpu-b21" beside "gpu-b17") is that of another host: what is in the file
is not about the ones that are known.
"""

import re
from collections.abc import Iterable, Sequence
from functools import cache

from whyhang.analyzer.facts import Exit, Fact, LogLine, replace

LEAST = 3  # characters of a name that may be found in a path
MOST = 4096  # hosts that are looked for


def with_hosts_of_files(facts: Sequence[Fact]) -> Sequence[Fact]:
    """Fill in the host of lines that name neither a host nor a rank, by the name of their file."""
    names = {who.host for fact in facts if (who := getattr(fact, "who", None)) and who.host}
    names = {name for name in names if len(name) >= LEAST and re.search(r"[A-Za-z]", name)}
    if not names or len(names) > MOST:
        return facts
    own = _any(re.escape(name) for name in names)
    alike = _any({re.sub(r"\d+", r"\\d+", re.escape(n)) for n in names if re.search(r"\d", n)})

    @cache
    def host_of(file: str) -> str | None:
        match = own.search(file) or alike.search(file)
        return match[0] if match else None

    return [
        replace(fact, who=replace(fact.who, host=host))
        if isinstance(fact, LogLine | Exit)
        and fact.who.host is None
        and fact.who.rank is None
        and fact.who.local_rank is None
        and (host := host_of(fact.source.file)) is not None
        else fact
        for fact in facts
    ]


def _any(names: Iterable[str]) -> re.Pattern[str]:
    """Match any of these names as a word of a path."""
    longest = sorted(names, key=len, reverse=True) or [r"(?!)"]
    return re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(longest)})(?![A-Za-z0-9])")
