"""Reads RAS reports from files: text or JSON, plain or verbose, whatever the file is called."""

import re
from collections.abc import Iterator

from whyhang.analyzer.facts import Fact, Gap
from whyhang.analyzer.reading import HEAD_BYTES, Document
from whyhang.collectors import limits
from whyhang.collectors.ras import json_report, text
from whyhang.collectors.ras.facts import facts

MAX_BYTES = 256 << 20
_ANSWERS = limits.compile(rb"\s*+(?:(?:SERVER PROTOCOL \d++|OK|ERROR:[^\n]*+)\r?\n\s*+)*+")
_TEXT = limits.compile(rb"NCCL version \S++ compiled with CUDA")
_TABLE = limits.compile(rb"^[ \t]*+Group ++Comms ++Nodes ++Ranks ++Ranks", re.MULTILINE)
_SUMMARY = limits.compile(rb"^Job summary\r?\n=+", re.MULTILINE)
_BLOCK = limits.compile(rb"^[ \t]*+#\d++-\d++ \([0-9a-f]++\) [A-Z]", re.MULTILINE)
_JSON = limits.compile(rb'"communicators(?:_count)?"\s*+:')


class RasReader:
    """Reads what ``ncclras`` printed, or what a RAS server answered."""

    name = "NCCL RAS report"

    def sniff(self, document: Document) -> bool:
        """Return whether it holds the words of a report."""
        head = document.head
        if _is_json(head):
            return True
        if (b" MISMATCH" in head or b" INCOMPLETE" in head) and _BLOCK.search(head):
            return True  # a piece of a report
        if b" Comms" not in head and b"Job summary" not in head:  # as in nearly all texts
            return False
        return bool(_TABLE.search(head) or (_SUMMARY.search(head) and _TEXT.search(head)))

    def owns(self, document: Document) -> bool:
        """Return whether it begins as a report: then it is no log with a report in it."""
        return _is_json(document.head) or bool(_TEXT.match(_without_answers(document.head)))

    def read(self, document: Document) -> Iterator[Fact]:
        """Yield what the report says, and a gap where it is damaged."""
        try:
            data = document.content(MAX_BYTES)
        except (OSError, EOFError) as error:
            yield _gap(document, f"it cannot be read ({error})")
            return
        content = data.decode("utf-8", "replace")
        if _is_json(data[:HEAD_BYTES]):
            report = json_report.parse(content)
        else:
            content, gaps = limits.bounded(document, content)
            yield from gaps
            report = text.parse(content.splitlines())
        if report is None:
            yield _gap(document, "it holds no report that can be understood")
            return
        if report.cut:
            yield _gap(document, "it is cut off before its end", partial=True)
        yield from facts(report, document)


def _without_answers(head: bytes) -> bytes:
    """Return what stands behind the answers of the dialogue, if these were kept."""
    answers = _ANSWERS.match(head)
    return head[answers.end() :] if answers is not None else head


def _is_json(head: bytes) -> bool:
    return _without_answers(head).startswith(b"{") and _JSON.search(head) is not None


def _gap(document: Document, why: str, *, partial: bool = False) -> Gap:
    return document.gap(
        why,
        what=f"the NCCL RAS report {document.path}",
        cost="what its end tells is not known" if partial else "what RAS tells is not known",
        remedy="Take it again: ncclras -v, or whyhang PID",
    )
