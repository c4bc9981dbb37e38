"""Core files: gdb reads them where there is one, and prints what a live process would show.

The header is that of elf(5), with ``e_type`` ``ET_CORE``. gdb loads neither its users' start files
nor scripts that lie beside programs and libraries, and asks no server for symbols; what it is given
is not run. The program itself has to be where it was, or its frames have no names.
"""

import io
import re
import shutil
import subprocess
from collections.abc import Iterator

from whyhang.analyzer.facts import Fact, Gap, replace
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.collectors.stacks import gdb

LIMIT = 30.0
"""Seconds for each run of gdb."""

MAX_OUTPUT = 32 << 20

_TAME = ("-nx", "-batch", "-iex", "set auto-load off", "-iex", "set debuginfod enabled off")
_PROCESS = re.compile(rb"^process (\d{1,10})$", re.MULTILINE)
_PROGRAM = re.compile(rb"^exe = '(.+)'$", re.MULTILINE)


class CoreReader:
    """Reads core files through gdb."""

    name = "core files"

    def sniff(self, document: Document) -> bool:
        """Return whether a file is a core file, of either byte order."""
        head = document.head[:20]
        return head[:4] == b"\x7fELF" and 4 in head[16:18] and sum(head[16:18]) == 4

    owns = sniff  # nothing in it is for any other reader

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield the stacks of all its threads, or what it takes to get them."""
        tool = shutil.which("gdb")
        if tool is None or document.local is None:
            why = "gdb is not installed here" if tool is None else "it lies in an archive"
            yield _gap(document, why)
            return
        try:
            about = _ask(tool, "info proc", "-core", document.local)
            exe, pid = _PROGRAM.search(about), _PROCESS.search(about)
            program = exe[1].decode("utf-8", "surrogateescape") if exe else ""
            text = _ask(tool, "thread apply all bt", *filter(None, [program]), document.local)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            yield _gap(document, f"gdb did not read it ({type(error).__name__})")
            return
        if pid is not None:
            text = b"[Inferior 1 (process %s)]\n" % pid[1] + text
        data = text[:MAX_OUTPUT]
        printed = replace(
            document, head=data[:HEAD_BYTES], size=len(data), open=lambda: io.BytesIO(data)
        )
        facts = list(gdb.READER.read(printed))
        yield from facts or [
            _gap(document, f"gdb found no stacks in it; was its program {program}?")
        ]


def _ask(tool: str, command: str, *target: str) -> bytes:
    return subprocess.run(
        [tool, *_TAME, "-ex", command, *target],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=LIMIT,
        check=False,
    ).stdout


def _gap(document: Document, why: str) -> Gap:
    return document.gap(
        why,
        what=f"the stacks in the core file {document.path}",
        cost="where its process stood is not known",
        remedy="On its host: gdb -batch -ex 'thread apply all bt' PYTHON CORE > stacks.txt",
    )


READER = CoreReader()
