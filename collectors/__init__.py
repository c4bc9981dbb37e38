"""Grab each kind of evidence from a live job, and read it back from files.

``READERS`` is all that reads files but logs, in the order in which a file is offered to them;
several may take something from one file. A new kind of evidence adds its reader here. The
reader of logs (``logs/reader.py``) joins them where it is known which lines to look for.
"""

from whyhang.analyzer.reading import Reader
from whyhang.collectors.cluster.pod_list import PodListReader
from whyhang.collectors.files.own_files import OwnFiles
from whyhang.collectors.flight_recorder.reader import FlightRecorder
from whyhang.collectors.gpu.nvml import NvmlReader
from whyhang.collectors.gpu.xml import XmlReader
from whyhang.collectors.heartbeat import HeartbeatReader
from whyhang.collectors.printed import PrintReader
from whyhang.collectors.prose import reader as prose
from whyhang.collectors.ras.reader import RasReader
from whyhang.collectors.stacks import (
    core,
    faulthandler,
    gdb,
    pyspy_json,
    pyspy_text,
    pystack,
    traceback,
)

READERS: tuple[Reader, ...] = (
    OwnFiles(),
    NvmlReader(),  # these have a file for themselves, and tell at once
    XmlReader(),
    PodListReader(),
    FlightRecorder(),
    HeartbeatReader(),
    core.READER,
    RasReader(),
    pyspy_json.READER,
    pyspy_text.READER,
    faulthandler.READER,
    gdb.READER,
    pystack.READER,
    traceback.READER,
    prose.READER,
    PrintReader(),
)
