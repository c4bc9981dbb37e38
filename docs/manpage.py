"""Make the manual page out of the parsers of the commands.

Run with: ``make man``. It writes ``docs/whyhang.1``, which the wheel installs.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from build_manpages.manpage import Manpage

from whyhang import __version__
from whyhang.analyzer.cli import parser
from whyhang.analyzer.commands import COMMANDS

PAGE = Path(__file__).with_name("whyhang.1")


def page() -> str:
    """Return the page in troff."""
    os.environ["COLUMNS"] = "80"  # argparse wraps its usage at the width of the terminal
    whole = parser(*COMMANDS)
    data = {
        "project_name": "whyhang",
        "description": "say why a distributed PyTorch job hangs",
        "version": __version__,
        "manual_section": "1",
        "manual_title": "whyhang",
    }
    text = str(Manpage(whole, _data=data))
    return re.sub(r'^(\.TH \S+ "1") "[^"]*"', r'\1 ""', text)  # the same page on any day


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
