"""Lines of programs that somebody quotes within a sentence."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

QUOTED = "`The client socket has timed out after 300000ms while trying to connect to (head, 4492)`"


@pytest.mark.parametrize(
    "words",
    [
        "After five minutes of silence it failed with {}, on both of our nodes",
        "| torchrun | hung for five minutes and then printed {} | yesterday |",
        "torchrun 静默挂 5 分钟、无任何子进程输出、然后报 {}",
    ],
)
def test_who_says_that_it_was_printed_reports_it(words: str) -> None:
    """The words before the quotation tell of something that happened."""
    findings = diagnosed_files({"hang.md": words.format(QUOTED) + "\n"}).findings

    assert findings[0].category == "init-master-unreachable"


def test_who_explains_a_message_does_not_report_it() -> None:
    """A page of documentation names the messages that there are."""
    words = f"If the address is wrong, every agent will end with {QUOTED} after a while.\n"

    assert not diagnosed_files({"README.md": words}).findings
