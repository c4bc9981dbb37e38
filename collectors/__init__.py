"""Grab each kind of evidence from a live job, and read it back from files.

``READERS`` is all that reads files, in the order in which a file is offered to them; several
may take something from one file. A new kind of evidence adds its reader here.
"""

from whyhang.analyzer.reading import Reader
from whyhang.collectors import faulthandler, gdb, handwritten, pyspy, pystack, traceback
from whyhang.collectors.bundle import OwnFiles
from whyhang.collectors.flight_recorder import FlightRecorder

READERS: tuple[Reader, ...] = (
    OwnFiles(),
    FlightRecorder(),
    pyspy.JSON,
    pyspy.TEXT,
    faulthandler.READER,
    gdb.READER,
    pystack.READER,
    traceback.READER,
    handwritten.READER,
)
