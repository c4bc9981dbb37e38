"""Rank 0 of a group names the ranks that never reached a monitored barrier.

monitored_barrier (gloo) is the one barrier that says who is missing; with
TORCH_DISTRIBUTED_DEBUG=DETAIL it stands before every collective. Only rank 0 of the group keeps
the clock, so the line comes from it while the culprits are the ranks in the line. Without
wait_all_ranks only the first missing rank is named. The numbers are ranks within the group,
which are global ranks for the default group.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="monitored-barrier-missing-rank",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Rank {ranks} did not reach the monitored barrier",
    when=log(
        r"Ranks? (?P<ranks>\d+(?:, \d+)*) failed to pass monitoredBarrier in \d+ ms",
        blames=Blames.NAMED,
    ),
    means=(
        "Rank 0 waited in a monitored barrier for every other rank of the group, and those named "
        "here did not come in time: they are somewhere else in the code, blocked, or dead."
    ),
    confidence=0.9,
    remedies=(
        (
            "Look at what the named ranks were doing: their last log line, their stacks, whether "
            "they are alive."
        ),
        (
            "If they only came late (a long load or save on one rank), give that barrier a "
            "longer timeout."
        ),
    ),
    next_steps=(
        "py-spy dump --pid PID  # on the named ranks while the job hangs",
        "With wait_all_ranks=True, monitored_barrier names all missing ranks, not only the first.",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "[E1121 02:08:47.483028020 ProcessGroupGloo.cpp:67] [Rank 0]: Rank 1 failed to pass "
            "monitoredBarrier in 4000 ms"
        ),
        "RuntimeError: [Rank 0]: Ranks 1, 5 failed to pass monitoredBarrier in 1800000 ms",
        (
            "[E ProcessGroupGloo.cpp:2791] [Rank 0]: Rank 3 failed to pass monitoredBarrier in "
            "1800000 ms"
        ),
    ),
    misses=(
        (
            "Rank 2 successfully reached monitoredBarrier, but received errors while waiting for "
            "send/recv from rank 0. Please check rank 0 logs for faulty rank."
        ),
        "Rank 0 timed out in monitoredBarrier after 4000 ms.",
    ),
    outranks=(
        "monitored-barrier-told-to-ask-rank-zero",
        "gloo-timeout",
    ),
)
