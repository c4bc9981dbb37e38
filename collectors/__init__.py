"""Grab each kind of evidence from a live job, and read it back from files.

``READERS`` is all that reads files, in the order in which a file is offered to them; several
may take something from one file. A new kind of evidence adds its reader here. ``LIVE_READERS``
are those of them for the files that a look at a live job yields. They are imported when they
are first asked for: nobody must wait for readers of what is not there.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyhang.analyzer.reading import Reader

    READERS: tuple[Reader, ...]
    LIVE_READERS: tuple[Reader, ...]


@functools.cache
def _live_readers() -> tuple[Reader, ...]:
    from whyhang.collectors.files.bundle import OwnFiles  # noqa: PLC0415
    from whyhang.collectors.stacks import pyspy  # noqa: PLC0415 - see above

    return (OwnFiles(), pyspy.JSON)


@functools.cache
def _readers() -> tuple[Reader, ...]:
    from whyhang.collectors.files.bundle import OwnFiles  # noqa: PLC0415
    from whyhang.collectors.flight_recorder.reader import FlightRecorder  # noqa: PLC0415
    from whyhang.collectors.gpu.nvml import NvmlReader  # noqa: PLC0415
    from whyhang.collectors.gpu.query_csv import CsvReader  # noqa: PLC0415
    from whyhang.collectors.gpu.text import TextReader  # noqa: PLC0415
    from whyhang.collectors.gpu.xml import XmlReader  # noqa: PLC0415
    from whyhang.collectors.ras.reader import RasReader  # noqa: PLC0415
    from whyhang.collectors.stacks import (  # noqa: PLC0415 - see above
        faulthandler,
        gdb,
        handwritten,
        pyspy,
        pystack,
        traceback,
    )

    return (
        OwnFiles(),
        NvmlReader(),  # these have a file for themselves, and tell at once
        XmlReader(),
        CsvReader(),
        FlightRecorder(),
        RasReader(),
        pyspy.JSON,
        pyspy.TEXT,
        faulthandler.READER,
        gdb.READER,
        pystack.READER,
        traceback.READER,
        handwritten.READER,
        TextReader(),
    )


if not TYPE_CHECKING:  # type checkers would take every submodule for a tuple of readers

    def __getattr__(name: str) -> tuple[Reader, ...]:
        makers = {"READERS": _readers, "LIVE_READERS": _live_readers}
        if name not in makers:
            raise AttributeError(name)
        return makers[name]()
