"""What is sent to a host so that whyhang runs there: first words, and a self-contained file."""

from __future__ import annotations

import base64
import sys
from collections.abc import Mapping
from pathlib import Path

import whyhang
from whyhang import __version__
from whyhang.collectors.hosts import boot

_SCRIPT = (
    "n=${WHYHANG_HOST:-${SLURMD_NODENAME:-$(hostname 2>/dev/null || uname -n)}}; "
    'echo "@whyhang1 $n ! alive"; '
    'for p in "$1" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do '
    'command -v "$p" >/dev/null 2>&1 && '
    "\"$p\" -c 'import sys;sys.exit(sys.version_info<(3,10))' 2>/dev/null && "
    'exec "$p" -uc "$2" "$n"; done; '
    'echo "@whyhang1 $n ! no-python"'
)
_FIRST = (
    "import sys;del sys.path[0];exec(__import__('base64').b64decode(sys.stdin.buffer.readline()))"
)


def words() -> tuple[str, ...]:
    """Return the words that are run on a host: a shell finds a Python, which reads the rest."""
    return ("sh", "-c", _SCRIPT, "whyhang", sys.executable, _FIRST)


def first_words() -> bytes:
    """Return the line of standard input that the Python found there runs."""
    root = Path(whyhang.__file__).parent.parent
    roots = [str(root), *(path for path in sys.path if path and path != str(root))]
    text = Path(boot.__file__).read_text(encoding="utf-8")
    config: Mapping[str, object] = {"version": __version__, "roots": roots}
    head, future, rest = text.partition("from __future__ import annotations\n")
    settings = f"CONFIG = {config!r}\nimport sys\nCONFIG['name'] = sys.argv[1]\n"
    return base64.b64encode(f"{head}{future}{settings}{rest}".encode()) + b"\n"
