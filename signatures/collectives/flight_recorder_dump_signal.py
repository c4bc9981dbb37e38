"""A rank that timed out asks the others to dump their flight recorder.

The signal travels through the store. Every rank that still has a live heartbeat thread answers,
so a rank with neither a timeout nor such a line is the one to look at: dead, frozen, or never
part of NCCL.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="flight-recorder-dump-signal",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    title="Ranks were told to dump their flight recorder because a collective timed out",
    when=log(
        r"Observed flight recorder dump signal from another rank via TCPStore",
        (
            r"Received a (?:global )?dump signal (?:due to a collective timeout )?from +(?:this "
            r"local rank|rank \d+)"
        ),
        (
            r"Received a (?:timeout signal from this local rank|global timeout from another "
            r"rank) and will start to dump the debug info"
        ),
        r"ProcessGroupNCCL preparing to dump debug info",
        (
            r"Broadcasting (?:flight[- ]recorder dump )?signal .*to other (?:processes|ranks) "
            r"via TCPStore"
        ),
        r"First PG on this rank (?:to signal dumping|detecting the dump signal)",
    ),
    means=(
        "One rank timed out and asked all others to write down their last collectives. The rank "
        "named in such a line is the one that timed out first, which waited; it is not the one "
        "that is missing."
    ),
    confidence=0.4,
    next_steps=("Collect the dump files of all ranks; the silent rank is the suspect",),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "[E1206 18:44:17.1 ProcessGroupNCCL.cpp:552] [Rank 0] Observed flight recorder dump "
            "signal from another rank via TCPStore."
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 1] Received a dump signal due to a collective "
            "timeout from  rank 3 and we will try our best to dump the debug info. Last enqueued "
            "NCCL work: 12, last completed NCCL work: 11."
        ),
        (
            "[PG 0 Rank 2] Received a global timeout from another rank and will start to dump "
            "the debug info. Last enqueued NCCL work: 4, last completed NCCL work: 3."
        ),
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL preparing to dump debug "
            "info. Include stack trace: 1"
        ),
        "[PG ID 0 PG GUID 0(default_pg) Rank 0] First PG on this rank to signal dumping.",
        (
            "[PG ID 0 PG GUID 0(default_pg) Rank 0] Broadcasting flight recorder dump signal to "
            "other processes via TCPStore."
        ),
    ),
    misses=("Finished writing Flight Recorder debug info to /tmp/nccl_trace_rank_0",),
)
