"""Reports of NCCL's RAS, as text and JSON, from NCCL 2.24 on."""

from __future__ import annotations

import json
import textwrap
from typing import Any

HEAD = """\
NCCL version 2.27.5 compiled with CUDA 12.9
CUDA runtime version 12090, driver version 12080

Job summary
===========

  Nodes  Processes         GPUs  Processes     GPUs
(total)   per node  per process    (total)  (total)
      2          8            1         16       16

Communicators... (0.00s)
=============

Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors
    #  in group  per comm  per node  per comm  in group
    0         1         2         8        16        {reported}   RUNNING  {errors}

Errors
======

{trouble}
Warnings
========

{warnings}
"""
WHERE = "GPU {} managed by process {} on node 10.1.0.4"


def text(trouble: str = "", warnings: str = "", errors: str = "OK") -> str:
    """Write a text report of 16 ranks on two nodes."""
    return HEAD.format(
        reported=16,
        errors=errors,
        trouble=textwrap.dedent(trouble),
        warnings=textwrap.dedent(warnings),
    )


BEHIND = text(
    warnings="""\
    #0-0 (7c5d1b0e6a2f9034) MISMATCH
      Communicator ranks have different AllReduce operation counts
      15 ranks have launched up to operation 412
      Rank 5 has launched up to operation 411 -- GPU 5 managed by process 48213 on node 10.1.0.4
    """,
    errors="MISMATCH",
)
BEHIND_OLD = text(
    warnings="""\
    #0-0 (7c5d1b0e6a2f9034) MISMATCH
      Communicator ranks have different collective operation counts
      14 ranks have launched up to operation 6650
      2 ranks have launched up to operation 6649
      Rank 0 -- GPU 0 managed by process 483072 on node 10.1.0.4
      Rank 3 -- GPU 3 managed by process 483075 on node 10.1.0.4
    """,
    errors="MISMATCH",
)
OTHER_ORDER = text(
    warnings="""\
    #0-0 (7c5d1b0e6a2f9034) MISMATCH
      Communicator ranks have different AllGather operation counts
      12 ranks have launched up to operation 96
      4 ranks have launched up to operation 95
      Rank 8 -- GPU 0 managed by process 5120 on node 10.1.0.5
      Rank 9 -- GPU 1 managed by process 5121 on node 10.1.0.5
      Rank 10 -- GPU 2 managed by process 5122 on node 10.1.0.5
      Rank 11 -- GPU 3 managed by process 5123 on node 10.1.0.5

      Communicator ranks have different AllReduce operation counts
      15 ranks have launched up to operation 412
      Rank 5 has launched up to operation 411 -- GPU 5 managed by process 48213 on node 10.1.0.4
    """,
    errors="MISMATCH",
)
SILENT = text(
    trouble="""\
    INCOMPLETE
      Missing communicator data from 1 job process
      Process 48213 on node 10.1.0.4 managing GPU 5

    #0-0 (7c5d1b0e6a2f9034) INCOMPLETE
      Missing communicator data from 1 rank
      Rank 5 -- GPU 5 managed by process 48213 on node 10.1.0.4
    """,
    warnings="""\
    TIMEOUT
      Encountered 2 communication timeouts while gathering communicator data
    """,
    errors="INCOMPLETE",
)
DEAD = text(
    trouble="""\
    DEAD
      1 job process is considered dead (unreachable via the RAS network)
      Process 48213 on node 10.1.0.4 managing GPU 5 (NVML 7)

    #0-0 (7c5d1b0e6a2f9034) INCOMPLETE
      Missing communicator data from 1 rank
      Rank 5 -- GPU 5 (NVML 7) managed by process 48213 on node 10.1.0.4

    #0-0 (7c5d1b0e6a2f9034) ERROR
      Asynchronous errors on 3 ranks
      3 ranks reported Remote process error
      Rank 4 -- GPU 4 managed by process 48212 on node 10.1.0.4
      Rank 6 -- GPU 6 managed by process 48214 on node 10.1.0.4
      Rank 7 -- GPU 7 managed by process 48215 on node 10.1.0.4
    """,
    errors="INCOMPLETE,ERROR",
)
LEFT = text(
    warnings="""\
    #0-0 (c0ffee0123456789) MISMATCH
      Communicator ranks have different status
      15 ranks have status RUNNING
      Rank 2 has status NOCOMM -- GPU 2 managed by process 903 on node 10.1.0.4
    """,
    errors="MISMATCH",
)
FAILED = text(
    trouble="""\
    #0-0 (c0ffee0123456789) ERROR
      Asynchronous errors on 16 ranks
      15 ranks reported Remote process error
      Rank 9 reported Unhandled CUDA error -- GPU 1 managed by process 904 on node 10.1.0.5
    """,
    errors="ERROR",
)
FEW_AHEAD = text(
    warnings="""\
    #0-0 (7c5d1b0e6a2f9034) MISMATCH
      Communicator ranks have different AllReduce operation counts
      15 ranks have launched up to operation 411
      Rank 5 has launched up to operation 412 -- GPU 5 managed by process 48213 on node 10.1.0.4
    """,
    errors="MISMATCH",
)
HALVES = text(
    warnings="""\
    #0-0 (7c5d1b0e6a2f9034) MISMATCH
      Communicator ranks have different AllReduce operation counts
      8 ranks have launched up to operation 412
      8 ranks have launched up to operation 411
    """,
    errors="MISMATCH",
)
NUMBERS_ONLY = text(
    trouble="""\
    #0-0 (7c5d1b0e6a2f9034) INCOMPLETE
      Missing communicator data from 2 ranks
      The missing ranks: 3, 7
    """,
    errors="INCOMPLETE",
)


def answer(counts: dict[int, tuple[int, int]], size: int = 4, **missing: dict[int, Any]) -> str:
    """Write a JSON report of one communicator: AllGather and AllReduce counts by rank."""
    place = {"host": "10.1.0.4", "cuda_dev": 0, "nvml_dev": 0}
    fine = {
        "init_state": 0,
        "async_error": 0,
        "finalize_called": False,
        "destroy_flag": False,
        "abort_flag": False,
    }
    ranks = [
        {
            "rank": rank,
            **place,
            "pid": 100 + rank,
            "status": fine,
            "collective_counts": {"Broadcast": 1, "AllGather": gathers, "AllReduce": reduces},
        }
        for rank, (gathers, reduces) in counts.items()
    ]
    gone = [
        {"rank": rank, "host": "10.1.0.4", "pid": 100 + rank, "cuda_dev": 0, "nvml_dev": 0}
        | {"status": {"unresponsive": state != "left", "considered_dead": state == "dead"}}
        for state, rows in missing.items()
        for rank in rows
    ]
    comm = {"hash": "0x7c5d1b0e6a2f9034", "secondary_hash": "0x1:0x2", "size": size}
    comm |= {"ranks_count": len(ranks), "missing_ranks_count": len(gone)}
    comm |= {"ranks": ranks, "missing_ranks": gone}
    head = {"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000}
    head |= {"timestamp": "2026-07-01 13:06:53", "communicators_count": 1}
    tail = {"ras": {"collection_time_sec": 5.012, "timeouts_count": 0}}
    return json.dumps({**head, "communicators": [comm], **tail}, indent=2)
