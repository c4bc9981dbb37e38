"""``python -m whyhang`` and the console script."""

from __future__ import annotations

import gc
import os
import sys


def run() -> int:
    """Run the command line. What goes wrong in whyhang itself is said in a sentence, too."""
    # What is imported and read stays; looking for garbage in it takes a tenth of a short run.
    gc.set_threshold(100_000, 50, 50)
    try:
        _import_msgspec()
        from whyhang.analyzer.cli import main  # noqa: PLC0415 - an interrupt may come meanwhile

        return main()
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        if os.environ.get("WHYHANG_TRACEBACK") or sys.stderr is None:
            raise
        print(_own_mistake(error), file=sys.stderr)
        return 1


def _import_msgspec() -> None:
    """Import it without typing_extensions, of which it takes what ``typing`` has as well.

    That is there wherever torch is, and takes a third of the time of all imports for ``--help``.
    """
    name = "typing_extensions"
    if name not in sys.modules:
        sys.modules[name] = None  # type: ignore[assignment]  # its import fails
        try:
            import msgspec  # noqa: F401, PLC0415
        finally:
            del sys.modules[name]


def _own_mistake(error: Exception) -> str:
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code if trace is not None else None
    place = f" in {code.co_name} ({os.path.basename(code.co_filename)})" if code else ""  # noqa: PTH119
    return (
        f"whyhang: a mistake of its own{place}: {type(error).__name__}: {error}\n"
        "  Nothing of the job was changed. `whyhang collect PID -o BUNDLE` keeps what a live job "
        "tells; WHYHANG_TRACEBACK=1 shows where this came from, for a report of it."
    )


if __name__ == "__main__":
    raise SystemExit(run())
