"""The NCCL watchdog of a rank gave up waiting for a collective.

This is what a hang looks like from a rank that waits; it is printed by those who came, and all
of them print it. Whom they waited for is seen by aligning operation and sequence number of all
ranks: the rank that never enqueued it, or that is silent. The number in '[Rank n]' is the rank
within a group and may be stale, so it names nobody.
"""

import re
from collections import defaultdict
from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import replace
from whyhang.analyzer.queries import Case, Hit, Kind, Signature, duration

PATTERNS = (
    r"[Cc]aught collective operation timeout",
    (
        r"Caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?"
        r"OpType=(?P<op>\w+)"
    ),
    (
        r"WorkNCCL\((?:SeqNum=(?P<seq>\d+), )?OpType=(?P<op>\w+)[^)]*(?:\(ms\)=\d+)?\) timed "
        r"out in (?:blocking wait|call to wait)"
    ),
    r"(?:^|[^:\s]\s+|[`'\"])WorkNCCL\([^)]*(?:\(ms\)=\d+)?\) ran for \d+ ?(?:ms|milliseconds)\b",
    r"Timeout at collective: (?P<op>\w+), #(?P<seq>\d+)",
    r"NCCL timeout in: \S+:\d+|NCCL timeout when waiting for nonblocking call",
)
MAX_SIDES = 3
"""Calls that a title tells apart."""

_LIMIT = re.compile(r"Timeout\(ms\)=(\d+)")


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit; ``what``, ``on``, ``after`` say of which call, as far as all lines agree."""
    lines = case.job.lines_with(PATTERNS)
    limits = {limit[1] for line in lines if (limit := _LIMIT.search(line.text))}
    after = f" within {duration(int(limits.pop()) / 1000)}" if len(limits) == 1 else " in time"
    what, on = _calls(case)
    for hit in queries.logged(case, *PATTERNS):
        yield replace(hit, fields={**hit.fields, "what": what, "on": on, "after": after})


SIGNATURE = Signature(
    id="watchdog-timeout",
    category="missing-rank-in-collective",
    kind=Kind.CONSEQUENCE,
    level="wait",
    title="{what} did not complete{after}{on}; the NCCL watchdog gave up",
    when=when,
    patterns=PATTERNS,
    means=(
        "The rank that prints this waited in a collective until the limit. Others did not come, "
        "or the transfer below never finished. It is a victim, unless nothing else was ever "
        "wrong."
    ),
    confidence="possible",
    remedies=(
        (
            "Find the rank that did not come, and what it did instead: it prints no such line, "
            "another error, or the oldest last line."
        ),
        (
            "If a rank is only long at work before that call, give the group a longer timeout: "
            "init_process_group(timeout=...)."
        ),
    ),
    next_steps=(
        (
            "Compare 'last enqueued' and 'last completed' of all ranks: the one that is behind "
            "is the one to look at"
        ),
        "Read flight-recorder dumps of all ranks (TORCH_FR_BUFFER_SIZE=2000)",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=133, OpType=ALLREDUCE, NumelIn=1, "
            "NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds before timing out."
        ),
        (
            "[E ProcessGroupNCCL.cpp:737] [Rank 1] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=5, OpType=BROADCAST, TensorShape=[64], Timeout(ms)=1800000) ran for "
            "1804406 milliseconds before timing out."
        ),
        (
            "[Rank 2] Caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLGATHER, "
            "Timeout(ms)=1800000) ran for 1800110 milliseconds before timing out."
        ),
        (
            "RuntimeError: [Rank 3] Work WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=10, "
            "NumelOut=10, Timeout(ms)=60000) timed out in blocking wait "
            "(TORCH_NCCL_BLOCKING_WAIT=1)."
        ),
        "[Rank 3]  WorkNCCL(SeqNum=9, OpType=ALLREDUCE) ran for 60001 ms before timing out",
        "- error: `WorkNCCL(SeqNum=9, OpType=ALLREDUCE, Timeout(ms)=60000) ran for 60001ms` again",
        "\t - [3] Timeout at collective: ALLREDUCE, #133",
        (
            "[Rank 0] Caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, "
            "Timeout(ms)=600000) ran for 600123 milliseconds before timing out."
        ),
        (
            "[rank1]: torch.distributed.DistBackendError: NCCL timeout in: "
            "../torch/csrc/distributed/c10d/NCCLUtils.cpp:55"
        ),
    ),
    misses=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) "
            "Rank 0] Exception (either an error or timeout) detected by watchdog at work: 133, "
            "last enqueued NCCL work: 135, last completed NCCL work: 132."
        ),
        "Watchdog joined, destroying NCCL communicators.",
    ),
)


def _calls(case: Case) -> tuple[str, str]:
    """Return the call that was given up and on which ranks, or which ranks stand in which call."""
    calls: dict[tuple[str, int | None], set[int]] = defaultdict(set)
    all_known = True
    for track in case.job.tracks:
        if track.kind == "watchdog" and track.calls:
            first = min(track.calls, key=lambda call: call.seq or 0)
            ranks_in_call = calls[first.op, first.seq]
            if track.who.rank is None:
                all_known = False
            else:
                ranks_in_call.add(track.who.rank)
    told = [rank for own in calls.values() for rank in own]
    ranks = set(told)
    # else it is one call, too many, or ranks that stand in several groups' calls
    if 1 < len(calls) <= MAX_SIDES and all_known and len(ranks) == len(told):
        most = sorted(calls.items(), key=lambda item: (-len(item[1]), item[0][1] or 0))
        sides = [f"{_name(*call)} ({queries.ranks_in_words(own)})" for call, own in most]
        return " and ".join(sides), ""
    on = f" on {queries.ranks_in_words(ranks)}" if ranks and all_known else ""
    ops, numbers = {op for op, _ in calls if op}, {number for _, number in calls}
    if len(ops) != 1:
        return "collectives" if ops else "a collective", on
    return _name(ops.pop(), numbers.pop() if len(numbers) == 1 else None), on


def _name(op: str, number: int | None) -> str:
    return f"{op or 'a collective'}{f' #{number}' if number is not None else ''}"
