"""What a library says in its own words reaches the finding: for whom it waits, whom it counts."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

COMMS = "".join(
    f"n1:{4100 + rank}:{4400 + rank} [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x55d0a{rank}0"
    f" rank {rank} nranks 8 cudaDev {rank} nvmlDev {rank} busId 1b000 commId 0x7c1f - Init COMPLETE"
    "\n"
    for rank in range(8)
)
ECC = "n1:4100 NCCL DIAG [FAIL] ECC: uncorrected volatile errors on rank(s) 5 (worst=3) across "
SIGNAL = "CUDASymmetricMemory::barrier: rank {} failed to receive signal from rank {} on channel 0"


@pytest.mark.parametrize(
    ("log", "signature", "ranks"),
    [
        (COMMS + ECC + "8 ranks in comm 0x7c1f", "nccl-diag-ecc", (5,)),
        (COMMS + ECC + "4 ranks in comm 0x99aa", "nccl-diag-ecc", None),
        (SIGNAL.format(3, 5), "device-barrier-peer-absent", (5,)),
        (SIGNAL.format(3, 5) + "\n" + SIGNAL.format(2, 5), "device-barrier-peer-absent", (5,)),
        (SIGNAL.format(3, 5) + "\n" + SIGNAL.format(5, 3), "device-barrier-peer-absent", None),
        (
            "[rank0]: RuntimeError: barrier failed -- missing ranks: 2, 5, wait timeout after 9ms",
            "store-barrier-missing-ranks",
            (2, 5),
        ),
    ],
    ids=[
        "numbers of the whole job",
        "numbers of a smaller communicator",
        "who is waited for",
        "who is waited for by two",
        "two that wait for each other",
        "who is missing at the store",
    ],
)
def test_a_line_that_names_ranks_blames_those(
    log: str, signature: str, ranks: tuple[int, ...] | None
) -> None:
    """Ranks are blamed whom the line names, not who says it, waits, or has another number."""
    finding = diagnosed({None: log}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == (signature, ranks)


CALL = """[rank3]: Traceback (most recent call last):
[rank3]:   File "/srv/app/train.py", line 88, in <module>
[rank3]:     stub.Step(request)
[rank3]: grpc._channel._InactiveRpcError: <_InactiveRpcError of RPC that terminated with:
[rank3]: \tstatus = StatusCode.{}
[rank3]: \tdetails = "{}"
"""


@pytest.mark.parametrize(
    ("code", "signature"),
    [("DEADLINE_EXCEEDED", "grpc-unanswered"), ("INVALID_ARGUMENT", "uncaught-exception")],
)
def test_a_later_line_of_a_message_says_what_it_was(code: str, signature: str) -> None:
    """An exception is known by any line of its message, and else told as it was raised."""
    log = "[rank0]: step 10\n" + CALL.format(code, "no answer")

    assert diagnosed({None: log}).findings[0].signature == signature


@pytest.mark.parametrize(
    "line",
    [
        'n1:4103:4603 [3] init.cc:90 NCCL WARN Missing "iommu=pt" from kernel command line',
        "n1:4103:4603 [3] NCCL WARN NET/OFI Unable to find a protocol that worked.",
        "n1:4103:4603 [3] init.cc:700 NCCL WARN Stack size limit (8388608) is unsafe; will use 16K",
        "n1:4103:4603 [3] nvls.cc:9 NCCL WARN Multicast bind of size 2097152 failed transiently",
        "n1:4103 NCCL DIAG [OK] ECC: no uncorrected volatile errors across 8 ranks in comm 0x7c1f",
        "n1 kernel: mlx5_core 0000:0c:00.0: Detected insufficient power on the PCIe slot (27W).",
        "n1 kernel: libceph: osd12 (1)10.0.9.5:6801 socket closed (con state OPEN)",
        "aiohttp.client_exceptions.ServerTimeoutError: Timeout on reading data (retry 1/5)",
        "n1 kernel: TCP: Possible SYN flooding on port 29500. Sending cookies.",
        "[1778580247.1] [n1:4103 :0] ib_md.c:1400 UCX  WARN  IB: ibv_fork_init() was disabled",
    ],
)
def test_a_harmless_line_does_not_make_a_cause(line: str) -> None:
    """Lines that libraries print in jobs that work are no causes, whatever words they use."""
    steps = "".join(f"[rank0]: step {n} loss 2.{n}\n" for n in range(10, 50, 10))

    report = diagnosed({None: COMMS + line + "\n" + steps + "[rank0]: training finished\n"})

    assert report.verdict in {"healthy", "inconclusive"}


def test_what_nccl_falls_back_from_counts_where_the_job_did_not_end() -> None:
    """The same line is a cause in a job that stops, and none in one that came to its end."""
    line = "n1:4103:4603 [3] NCCL WARN NET/OFI Unable to find a protocol that worked.\n"

    stopped = diagnosed({None: COMMS + line})

    assert stopped.findings[0].signature == "nccl-ofi-completion-error"
