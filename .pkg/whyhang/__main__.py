"""``python -m whyhang`` and the console script."""

from __future__ import annotations

import os
import sys


def run() -> int:
    """Run the command line. What goes wrong in whyhang itself is said in a sentence, too."""
    try:
        from whyhang.analyzer import interrupts  # noqa: PLC0415 - Ctrl-C may come meanwhile

        interrupts.heed()
        with interrupts.while_importing():
            from whyhang.analyzer.cli import main  # noqa: PLC0415

        return main()
    except KeyboardInterrupt:
        sys.stderr.write("whyhang: interrupted; nothing of the job was changed\n")
        return 130
    except Exception as error:
        if os.environ.get("WHYHANG_TRACEBACK") or sys.stderr is None:
            raise
        print(_own_mistake(error), file=sys.stderr)
        return 1


def _own_mistake(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_name} ({os.path.basename(code.co_filename)})" if code else ""
    return (
        f"whyhang: a mistake of its own{place}: {type(error).__name__}: {error}\n"
        "  Nothing of the job was changed. `whyhang collect PID -o BUNDLE` keeps what a live job "
        "tells; WHYHANG_TRACEBACK=1 shows where this came from, for a report of it."
    )


if __name__ == "__main__":
    raise SystemExit(run())
