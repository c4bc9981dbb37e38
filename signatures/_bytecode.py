"""The code of all signatures, read at once.

To import four hundred modules takes several times as long as to run what is in them. As Python
keeps the bytecode of each module in ``__pycache__``, that of all signatures is kept there in one
more file, with the size and time of every file it was made from. Where any of them differs, is
new or is gone, it is made anew; the signatures' own files stay the only truth. Where it cannot
be written, each module's own bytecode is used.
"""

from __future__ import annotations

import contextlib
import marshal
import os
import sys
from collections.abc import Iterator
from importlib.machinery import SourceFileLoader
from importlib.util import MAGIC_NUMBER, cache_from_source
from types import CodeType
from typing import TypeAlias

from whyhang import __version__

State: TypeAlias = "tuple[str, str, tuple[tuple[str, int, int], ...]]"

_NAME = "all_signatures.py"  # there is none; it names the bytecode


def codes(folder: str, package: str) -> Iterator[CodeType]:
    """Yield the code of each module below ``folder``, in the folders of its topics.

    Raises ``OSError`` where that is no folder (a zipped package), and what a compiler raises.
    """
    paths = sorted(_modules(folder))
    stats = [os.stat(path) for path in paths]  # noqa: PTH116 - hundreds
    files = tuple(
        (path, stat.st_size, stat.st_mtime_ns) for path, stat in zip(paths, stats, strict=True)
    )
    state: State = (__version__, folder, files)
    kept = _kept(folder, state)
    if kept is not None:
        yield from kept
        return
    made: list[CodeType] = []
    for path in paths:
        name = path[len(folder) + 1 : -len(".py")].replace(os.sep, ".")
        code = SourceFileLoader(f"{package}.{name}", path).get_code(f"{package}.{name}")
        if code is not None:
            made.append(code)
            yield code
    _keep(folder, state, made)


def _modules(folder: str, *, top: bool = True) -> Iterator[str]:
    """List the modules in the topics: those beside them are no signatures."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith("_"):
                continue
            if entry.is_dir():
                yield from _modules(entry.path, top=False)
            elif entry.name.endswith(".py") and not top:
                yield entry.path


def _place(folder: str) -> str:
    return cache_from_source(f"{folder}{os.sep}{_NAME}")


def _kept(folder: str, state: State) -> list[CodeType] | None:
    """Read what was kept, unless it was made from other files or by another Python."""
    try:
        with open(_place(folder), "rb") as file:  # noqa: PTH123 - at every start
            magic, data = file.read(len(MAGIC_NUMBER)), file.read()
        found, made = marshal.loads(data) if magic == MAGIC_NUMBER else (None, None)  # noqa: S302
    except (OSError, NotImplementedError, EOFError, ValueError, TypeError):
        return None
    return made if found == state else None


def _keep(folder: str, state: State, made: list[CodeType]) -> None:
    """Write it for the next time, if bytecode is to be written and may be."""
    if sys.dont_write_bytecode:
        return
    with contextlib.suppress(OSError, NotImplementedError, ValueError):
        place = _place(folder)
        os.makedirs(os.path.dirname(place), exist_ok=True)  # noqa: PTH103, PTH120
        new = f"{place}.{os.getpid()}"
        with open(new, "xb") as file:  # noqa: PTH123
            file.write(MAGIC_NUMBER + marshal.dumps((state, made)))
        os.replace(new, place)  # noqa: PTH105 - all at once: others may be reading
