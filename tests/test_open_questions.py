"""Evidence without the cause: what is excluded, what to get next; and plans held against it."""

import pytest
from log_docs import diagnosed_files, of, read_log
from small_jobs import ELSEWHERE, dump, process, report_of
from test_who_is_where import WAITED

from whyhang.analyzer.facts import Gap, WorldSize
from whyhang.analyzer.report import Report

GATHERED = (
    "[rank{0}]:[E1121 14:05:00.1 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) "
    "Rank {0}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType={1}, "
    "NumelIn={2}, NumelOut={3}, Timeout(ms)=600000) ran for 600012 milliseconds before timing "
    "out.\n"
)


def sentence_of(report: Report, begin: str) -> str:
    """Return the note that begins so."""
    return next((note for note in report.notes if note.startswith(begin)), "")


def gathered(ranks: int, op: str = "ALLGATHER", sizes: tuple[int, int] = (1, 4)) -> str:
    """Write that so many ranks gave up the first call."""
    return "".join(GATHERED.format(rank, op, *sizes) for rank in range(ranks))


def test_what_is_excluded_and_what_would_tell() -> None:
    """All of the group are in one call: neither absence nor another call is the cause."""
    report = diagnosed_files({"a.log": gathered(4)})

    assert report.findings[0].category == "unknown"
    assert "a rank that did not come" in sentence_of(report, "Excluded by the evidence")
    assert "the kernel's log" in sentence_of(report, "What would tell most")


def test_nothing_is_excluded_of_ranks_that_nobody_has_seen() -> None:
    """Half of the ranks are in it; what the others do is what would tell."""
    report = diagnosed_files({"a.log": "world_size=4\n" + gathered(2)})

    assert sentence_of(report, "Excluded by the evidence") == ""


def test_a_named_cause_leaves_no_question() -> None:
    """Who knows the cause is told no more than that."""
    raised = "[rank3]: Traceback (most recent call last):\n[rank3]: KeyError: 'x'\n"
    report = diagnosed_files({"a.log": raised + "".join(WAITED.format(n, 1) for n in range(3))})

    assert report.findings[0].culprit_ranks == (3,)
    assert not sentence_of(report, "Excluded by") + sentence_of(report, "What would tell most")


@pytest.mark.parametrize(
    ("op", "sizes", "world"),
    [
        ("ALLGATHER", (1, 4), [4]),
        ("_ALLGATHER_BASE", (1000, 8000), [8]),
        ("_REDUCE_SCATTER_BASE", (8000, 1000), [8]),
        ("ALLREDUCE", (8000, 8000), []),
        ("ALLTOALL_BASE", (1000, 4000), []),
        ("ALLGATHER", (3, 10), []),
    ],
)
def test_sizes_of_a_call_tell_of_how_many_ranks_it_is(
    op: str, sizes: tuple[int, int], world: list[int]
) -> None:
    """What is gathered is so many times what each gives; other operations tell nothing."""
    facts = read_log(gathered(2, op, sizes))

    assert [fact.size for fact in of(facts, WorldSize)] == world


def test_a_hostfile_with_too_few_slots() -> None:
    """It has room for six of eight; one with more than are needed is in order."""
    log = "rank 0: world_size=8, waiting in init_process_group\n"
    few = diagnosed_files({"hostfile": "n1 slots=4\n# spare\nn2 slots=2\n", "a.log": log})
    many = diagnosed_files({"hostfile": "n1 slots=8\nn2 slots=8\n", "a.log": log})

    assert few.findings[0].signature == "launch-starts-fewer"
    assert "6 slots" in few.findings[0].title
    assert "launch-starts-fewer" not in [finding.signature for finding in many.findings]


def test_a_rank_alone_in_its_call() -> None:
    """Others that wait in a barrier without it make it the odd one; without them it waits."""
    ahead = (
        "[rank7]:[E1121 14:00:00.1 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) "
        "Rank 7] Received a dump signal due to a collective timeout from this local rank and we "
        "will try our best to dump the debug info. Last enqueued NCCL work: 390, last completed "
        "NCCL work: 116.\n"
    )
    rest = "".join(
        ahead.replace("ank7", f"ank{n}").replace("ank 7", f"ank {n}").replace("390", "116")
        for n in (0, 5)
    )
    barrier = "".join(
        f"[rank{n}]: Traceback (most recent call last):\n"
        f'[rank{n}]:   File "/w/serve.py", line 9, in sync\n[rank{n}]:     dist.barrier(group=g)\n'
        f'[rank{n}]:   File "/env/torch/distributed/distributed_c10d.py", line 5, in barrier\n'
        f"[rank{n}]:     work.wait()\n[rank{n}]: RuntimeError: [/gloo/transport/tcp/"
        "unbound_buffer.cc:78] Timed out waiting 1800000ms for recv operation to complete\n"
        for n in (3, 4)
    )

    first = diagnosed_files({"a.log": ahead + rest + barrier}).findings[0]
    assert (first.signature, first.culprit_ranks) == ("alone-in-its-call", (7,))
    assert diagnosed_files({"a.log": ahead + rest}).findings[0].culprit_ranks == (0, 5)


def test_an_old_communicator_id() -> None:
    """A rank that sets up a second communicator under the first one's id waits for nobody."""
    line = (
        "n1:{0}:9 [{0}] NCCL INFO ncclCommInitRank comm 0x{1}{0} rank {0} nranks 2 cudaDev {0} "
        "nvmlDev {0} busId {0}b000 commId 0x{2} - Init {3}\n"
    )
    first = "".join(line.format(r, "a", "77", e) for e in ("START", "COMPLETE") for r in (0, 1))
    gone = "".join(line.format(r, "a", "77", "START").replace("Init START", "x") for r in (0, 1))
    again = line.format(0, "b", "88", "START") + line.format(1, "b", "77", "START")
    new = line.format(0, "b", "88", "START") + line.format(1, "b", "88", "START")

    first_finding = diagnosed_files({"a.log": first + gone + again}).findings[0]
    assert (first_finding.signature, first_finding.culprit_ranks) == ("stale-communicator-id", (1,))
    fine = diagnosed_files({"a.log": first + gone + new}).findings
    assert "stale-communicator-id" not in [finding.signature for finding in fine]


def test_what_an_object_collective_raises_after_it_was_given_up() -> None:
    """Sizes that never came are garbage; the same error before any time-out is a rank's own."""
    raised = "".join(
        f"[rank2]: {line}\n"
        for line in (
            "Traceback (most recent call last):",
            '  File "/w/grpo.py", line 9, in infer',
            "    dist.all_gather_object(lengths, own)",
            '  File "/env/torch/distributed/distributed_c10d.py", line 3042, in all_gather_object',
            "    input_tensor.resize_(max_object_size)",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 184.13 GiB.",
        )
    )
    waits = gathered(2)

    late = diagnosed_files({"a.log": waits + raised}).findings[0]
    early = diagnosed_files({"a.log": raised + waits}).findings[0]
    assert late.category != "gpu-oom"
    assert (early.category, early.culprit_ranks) == ("gpu-oom", (2,))


def test_why_no_rank_could_be_looked_into_stands_in_the_headline() -> None:
    """What everybody asks first; where some stacks were read, it stands with what is missing."""
    processes = [process(rank, environ={"WORLD_SIZE": "2"}) for rank in range(2)]
    gap = Gap(what="stacks of 2 processes", why="this user may not attach", who=processes[0].who)
    unread = report_of([*processes, gap])
    assert unread.verdict == "inconclusive"
    assert "No stack of any rank could be read" in unread.headline
    assert unread.headline.endswith("this user may not attach.")
    read = report_of([*processes, dump(0, ELSEWHERE), gap])
    assert "No stack" not in read.headline
