"""The load of GPUs tells which rank launched nothing."""

from __future__ import annotations

import io

import pytest
from gpu_docs import gpus, listed, row, table
from gpu_jobs import ALL, NCCL, RESTS, WORKS, job, states
from rich.console import Console
from small_jobs import BROADCAST, ELSEWHERE, report_of, still

from whyhang.analyzer.facts import Fact, Frame, StackDump, Who, replace
from whyhang.analyzer.reports.terminal import show


def test_the_idle_gpu_among_spinning_ones_names_its_rank() -> None:
    """All stacks are alike; the one GPU at 0 % tells who launched nothing."""
    report = job(states({3: RESTS}))
    first = report.findings[0]

    assert report.verdict == "hung"
    assert (first.signature, first.category) == ("gpu-never-launched", "missing-rank-in-collective")
    assert first.culprit_ranks == (3,)
    assert first.affected_ranks == (0, 1, 2, 4, 5, 6, 7)
    assert "Rank 3 has launched nothing" in first.title
    assert "GPU 3" in report.headline
    assert any("utilization 0 %" in piece.quote for piece in first.evidence)
    assert [(r.ranks, r.use, r.power) for r in report.gpus] == [
        ((3,), "0 %", "71 W"),
        ((0, 1, 2, 4, 5, 6, 7), "100 %", "118 W"),
    ]
    assert "stuck-together" not in {finding.signature for finding in report.findings}


@pytest.mark.parametrize(
    ("function", "words"),
    [
        ("cuModuleLoadData", "CUDA_MODULE_LOADING=EAGER"),
        ("cudaMalloc", "CUDA memory call"),
        ("cudaStreamSynchronize", "work on a stream"),
        ("cudaLaunchKernel", "in the launch of a kernel"),
    ],
)
def test_the_stack_says_why_nothing_was_launched(function: str, words: str) -> None:
    """A native frame of CUDA in the idle rank's stack is the reason that is given."""
    facts = []
    for fact in still(ALL):
        if isinstance(fact, StackDump) and fact.who.rank == 3:
            native = Frame(function=function, file="libcudart.so.12", native=True)
            thread = fact.threads[0]
            frames = (native, *thread.frames)
            fact = replace(fact, threads=(replace(thread, frames=frames),))
        facts.append(fact)
    first = report_of([*facts, NCCL, *states({3: RESTS})]).findings[0]

    assert first.signature == "gpu-never-launched"
    assert words in first.explanation


def test_a_stack_that_names_the_late_rank_leads() -> None:
    """Where stacks already show who is elsewhere, the load of GPUs adds no second cause."""
    report = report_of([*still({**ALL, 3: ELSEWHERE}), NCCL, *states({3: RESTS})])

    assert [f.signature for f in report.findings] == ["missing-rank-in-collective"]
    assert report.findings[0].culprit_ranks == (3,)


def test_one_gpu_at_work_among_idle_ones() -> None:
    """The reverse: one rank computes, the others wait for it on the host."""
    first = job(states({5: WORKS}, **RESTS)).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-alone-at-work", (5,))


def test_all_spinning_names_nobody() -> None:
    """All at 100 % with low power: everyone launched, the cause is below the program."""
    report = job(states())
    first = report.findings[0]

    assert (report.verdict, first.signature) == ("hung", "gpus-spin-together")
    assert first.culprit_ranks is None
    assert "118 W" in first.explanation


def test_all_idle_is_a_matter_of_the_host() -> None:
    """0 % everywhere with processes on the GPUs: nobody launched, and nobody is blamed."""
    first = job(states(**RESTS)).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpus-idle-together", None)


def test_gpus_of_a_gloo_job_say_nothing() -> None:
    """Ranks that talk on the host leave their GPUs idle; that decides nothing."""
    gloo = replace(NCCL, value="gloo")
    report = report_of([*still(ALL), gloo, *states(**RESTS)])

    assert [f.signature for f in report.findings] == ["stuck-together"]


def test_computing_ranks_are_no_finding() -> None:
    """High power or memory traffic is work: of a running job, nothing is said."""
    assert [f.signature for f in job(states(**WORKS)).findings] == ["stuck-together"]


def test_a_moment_between_is_no_finding() -> None:
    """A GPU that is at 0 % in one sample and at 100 % in the next is neither idle nor stuck."""
    first, second = states({3: RESTS}, looks=1), states(looks=1)
    facts = [*first, *(replace(f, look=1) for f in second)]  # type: ignore[type-var]

    assert "gpu-never-launched" not in {f.signature for f in job(facts).findings}


def test_of_a_broadcast_an_idle_gpu_tells_less() -> None:
    """Its root may be done while the others are not: said, and less surely."""
    in_broadcast = dict.fromkeys(range(8), BROADCAST)
    sure = job(states({3: RESTS})).findings[0]
    first = report_of([*still(in_broadcast), NCCL, *states({3: RESTS})]).findings[0]

    assert first.signature == "gpu-never-launched"
    assert first.confidence < sure.confidence - 0.2


def test_the_rows_of_gpus_fit_the_terminal() -> None:
    """Beside the ranks stands a short table of the GPUs that decide, in 80 columns."""
    who = Who(host="node-with-a-long-name.cluster.example.org")
    facts: list[Fact] = [replace(f, who=who) for f in states({3: RESTS})]  # type: ignore[type-var]
    console = Console(file=io.StringIO(), width=80)
    show(job(facts), console)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    lines = [line.rstrip() for line in text.splitlines()]
    head = lines.index("GPUs")

    assert max(len(line) for line in lines) <= 80
    assert lines[head + 1].split() == ["ranks", "use", "power", "gpu"]
    assert lines[head + 2].startswith("3        0 %    71 W   GPU 3 of node-with")
    assert lines[head + 4].startswith("0-2,4-7  100 %  118 W  GPUs 0-2,4-7 of node-with")


def test_a_bare_table_is_at_most_a_possibility() -> None:
    """Load at one moment with no stacks: never more than "possibly"."""
    rows = "\n".join(row(n, "0%" if n == 3 else "100%", "118W") for n in range(8))
    processes = "\n".join(listed(n, 100 + n) for n in range(8))
    report = report_of(gpus(table(rows, processes)))

    assert report.verdict == "inconclusive"
    assert all(finding.confidence < 0.5 for finding in report.findings)
