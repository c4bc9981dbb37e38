"""Collectives, sends and receives that records show, matched over all ranks.

``recorded_calls(tracks, groups, world_size, waits=...)`` takes every ``Track`` there is (flight
recorder, watchdog lines, fingerprints, NCCL counters, RAS, stacks). On the way to its findings:

* ``job_calls``: the calls of each process group (``groups``), and how far each rank came;
* ``consistency``: what contradicts the rest is corrected;
* ``pending``, ``shared_calls``: the call that each rank is in, and with whom;
* ``waits``, ``call_graph``: who waits for whom, and where the waits end;
* ``mismatch``, ``shift``, ``routine``: how the calls of ranks differ, and who left its routine;
* ``call_findings`` and its neighbours: what became of each call, and through whom.
"""

from whyhang.analyzer.collectives.call_finding import CallFinding, Verdict
from whyhang.analyzer.collectives.call_findings import RecordedCalls, recorded_calls
from whyhang.analyzer.collectives.groups import Disagreement
from whyhang.analyzer.collectives.mismatch import Side
from whyhang.analyzer.collectives.pending import IssuedCall
