"""What the state of GPUs decides: which rank launched nothing, what is broken, and what is not."""

from __future__ import annotations

import argparse
import io
from collections.abc import Mapping
from pathlib import Path

import pytest
from gpu_docs import BUSES, gpus, listed, node, row, table, uuid, xml_gpu, xml_log
from log_docs import diagnosed_files
from rich.console import Console
from small_jobs import ALL_REDUCE, BROADCAST, ELSEWHERE, case_of, dump, process, report_of, still

from whyhang.analyzer.commands.diagnose import add_arguments, report_on
from whyhang.analyzer.facts import (
    DriverSilence,
    Fact,
    Frame,
    Gap,
    GpuAddress,
    Setting,
    Source,
    StackDump,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.terminal import show

ALL = dict.fromkeys(range(8), ALL_REDUCE)
SPINS = {"busy": "100 %", "memory_busy": "0 %", "power": "118.20 W"}
RESTS = {"busy": "0 %", "memory_busy": "0 %", "power": "71.00 W"}
WORKS = {"busy": "100 %", "memory_busy": "40 %", "power": "640.00 W"}
NCCL = Setting(name="backend", value="nccl", who=Who(), source=Source(file="x"))


def states(
    changed: Mapping[int, Mapping[str, str]] | None = None, *, looks: int = 2, **everywhere: str
) -> list[Fact]:
    """Give the GPUs of the small job's host, whose rank n has the pid 1000 + n."""
    text = node(changed, **{**SPINS, **everywhere})
    return [replace(gpu, look=look) for look in range(looks) for gpu in gpus(text)]


def job(facts: list[Fact]) -> Report:
    """Diagnose eight ranks that all stand in one all_reduce, with these facts beside."""
    return report_of([*still(ALL), NCCL, *facts])


def test_the_idle_gpu_among_spinning_ones_names_its_rank() -> None:
    """All stacks are alike; the one GPU at 0 % tells who launched nothing."""
    report = job(states({3: RESTS}))
    first = report.findings[0]

    assert report.verdict == "hung"
    assert (first.signature, first.category) == (
        "gpu-never-launched",
        "missing-rank-in-collective",
    )
    assert first.culprit_ranks == (3,)
    assert first.affected_ranks == (0, 1, 2, 4, 5, 6, 7)
    assert "Rank 3 has launched nothing" in first.title
    assert "GPU 3" in report.headline
    assert any("utilization 0 %" in piece.quote for piece in first.evidence)
    assert [(r.ranks, r.use, r.power) for r in report.gpus] == [
        ((3,), "0 %", "71 W"),
        ((0, 1, 2, 4, 5, 6, 7), "100 %", "118 W"),
    ]
    other = next(f for f in report.findings if f.signature == "stuck-together")
    assert other.caused_by == 0


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


FAULTS = [
    ({"mode": "GPU is lost"}, "gpu-out-of-reach", "gpu-fell-off-bus"),
    ({"busy": "Unknown Error", "power": "ERR!"}, "gpu-unreadable", "gpu-hardware-xid"),
    ({"reset": "Yes"}, "gpu-to-be-reset", "gpu-hardware-xid"),
    ({"busy": "[GPU requires reset]"}, "gpu-to-be-reset", "gpu-hardware-xid"),
    ({"failure": "Yes"}, "gpu-memory-repair", "gpu-hardware-xid"),
    ({"fabric": "In Progress", "status": "N/A"}, "gpu-not-in-fabric", "nvlink-error"),
]


@pytest.mark.parametrize(("values", "signature", "category"), FAULTS)
def test_a_broken_gpu_is_the_cause(values: dict[str, str], signature: str, category: str) -> None:
    """The rank on it is named, with the host and the GPU to drain."""
    facts = [replace(f, who=Who(host="node7")) for f in states({2: values})]  # type: ignore[type-var]
    report = job(facts)
    findings = {f.signature: f for f in report.findings}

    assert findings[signature].category == category
    assert findings[signature].culprit_ranks == (2,)
    assert "GPU 2 of node7 (0000:52:00)" in findings[signature].title
    assert any("node7" in text for text in findings[signature].remedies)


def test_uncorrectable_errors_that_grow_are_a_cause() -> None:
    """Between two looks the volatile count went up: it happens now."""
    later = [replace(f, look=1) for f in states({6: {"ecc": "3"}}, looks=1)]  # type: ignore[type-var]
    first = job([*states(looks=1), *later]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-ecc-uncorrected", (6,))
    assert first.confidence >= 0.9
    assert "grew from 0 to 3" in first.explanation


def test_old_counters_are_no_cause() -> None:
    """What a board counted over its life says nothing of this job."""
    report = report_of(gpus(node({6: {"ecc_ever": "12"}}, **RESTS)))

    assert (report.findings, report.verdict) == ((), "inconclusive")


def links(errors: Mapping[int, int] | None = None, inactive: tuple[int, ...] = ()) -> str:
    """Write ``nvlink -s`` or, with errors, ``nvlink -e`` of eight GPUs with two links each."""
    text = ""
    for n in range(8):
        text += f"GPU {n}: NVIDIA H200 (UUID: {uuid(n)})\n"
        for link in range(2):
            if errors is not None:
                count = errors.get(n, 5) if link else 0
                text += f"\t Link {link}: Replay Errors: 0\n\t Link {link}: CRC Errors: {count}\n"
            else:
                down = n in inactive and link == 1
                text += f"\t Link {link}: {'<inactive>' if down else '26.562 GB/s'}\n"
    return text


def test_links_that_are_down_on_one_gpu() -> None:
    """Fewer active links than the GPUs beside it: the link is broken."""
    first = job([*states(), *gpus(links(inactive=(4,)))]).findings[0]

    assert (first.signature, first.category) == ("gpu-nvlink-down", "nvlink-error")
    assert first.culprit_ranks == (4,)


def test_links_that_no_gpu_has_are_no_fault() -> None:
    """A link that is inactive on every GPU is not wired."""
    findings = job([*states(), *gpus(links(inactive=tuple(range(8))))]).findings

    assert "gpu-nvlink-down" not in {f.signature for f in findings}


def test_only_errors_that_grow_count() -> None:
    """Every link has old errors; those of one GPU grew between two looks."""
    before, after = gpus(links({})), gpus(links({1: 900}))
    first = job([*states(), *before, *(replace(f, look=1) for f in after)]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-nvlink-errors", (1,))
    again = job([*states(), *before, *(replace(f, look=1) for f in before)])
    assert "gpu-nvlink-errors" not in {f.signature for f in again.findings}


def test_a_lost_link_in_the_topology() -> None:
    """In a full mesh, the GPU that all others reach by fewer links is the odd one."""
    rows = []
    for n in range(4):
        cells = ["X" if n == m else "NV12" if 2 in (n, m) else "NV18" for m in range(4)]
        rows.append(f"GPU{n}\t" + "\t".join(cells) + "\t0-47\t0")
    text = "\tGPU0\tGPU1\tGPU2\tGPU3\tCPU Affinity\tNUMA Affinity\n" + "\n".join(rows)
    findings = report_of(gpus(text)).findings

    assert [f.signature for f in findings] == ["gpu-nvlink-down"]
    assert "GPU 2" in findings[0].title


def test_two_ranks_on_one_gpu() -> None:
    """By their pids: both on GPU 0, and GPU 1 has no rank."""
    both = xml_gpu(0, pid=1000).replace(
        "<process_info>",
        "<process_info><pid>1001</pid><type>C</type><used_memory>9000 MiB</used_memory>"
        "</process_info><process_info>",
        1,
    )
    first, *_ = report_of(
        [*still({0: ALL_REDUCE, 1: ALL_REDUCE}), NCCL, *gpus(xml_log([both, xml_gpu(1)]))]
    ).findings

    assert (first.signature, first.category) == ("gpu-shared-by-ranks", "duplicate-gpu")
    assert first.culprit_ranks == (0, 1)


def in_nccl(*ranks: tuple[str, int, str], done: bool = False) -> Report:
    """Diagnose what NCCL prints of ranks on hosts, each with its pid and the bus id of its GPU."""
    lines = [
        f"{host}:{pid}:{pid + 20} [0] NCCL INFO comm 0x5{rank}e0 rank {rank} nranks {len(ranks)} "
        f"cudaDev 0 nvmlDev 0 busId {bus} commId 0x71 - Init {event}"
        for event in (("START", "COMPLETE") if done else ("START",))
        for rank, (host, pid, bus) in enumerate(ranks)
    ]
    return diagnosed_files({"nccl.log": "\n".join(lines)})


def test_two_ranks_on_one_gpu_by_nccls_own_lines() -> None:
    """The bus ids stand beside the ranks while the communicator is made."""
    first, *_ = in_nccl(("n1", 7, "1b000"), ("n1", 8, "3d000"), ("n1", 9, "1b000")).findings

    assert (first.signature, first.culprit_ranks) == ("gpu-shared-by-ranks", (0, 2))
    assert "0000:1b:00 on n1" in first.title


@pytest.mark.parametrize(
    "report",
    [
        in_nccl(("n1", 7, "1b000"), ("n2", 7, "1b000")),
        in_nccl(("n1", 7, "1b000"), ("n1", 8, "1b000"), done=True),
        in_nccl(("n1", 7, "1b000"), ("n1", 8, "3d000")),
    ],
    ids=["two hosts", "NCCL takes it", "two GPUs"],
)
def test_a_gpu_of_each_rank_is_no_sharing(report: Report) -> None:
    """Equal bus ids of two hosts are two GPUs; what NCCL accepts is its business."""
    assert all(finding.category != "duplicate-gpu" for finding in report.findings)


def test_small_contexts_on_the_first_gpu_are_no_sharing() -> None:
    """A rank's GPU is the one with most of its memory, not each one it touched."""
    text = node(count=2).replace(
        "<process_info>",
        "<process_info><pid>1001</pid><type>C</type><used_memory>500 MiB</used_memory>"
        "</process_info><process_info>",
        1,
    )
    case = case_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE}), NCCL, *gpus(text)])

    assert case.job.gpus.by_member == {0: 0, 1: 1}


def test_a_taken_gpu() -> None:
    """In exclusive mode, with another process on it, the rank that should use it is not there."""
    text = node({1: {"mode": "Exclusive_Process"}}, count=2, first_pid=9000)
    findings = report_of([*still({0: ALL_REDUCE, 1: ALL_REDUCE}), NCCL, *gpus(text)]).findings
    taken = next(f for f in findings if f.signature == "gpu-taken")

    assert taken.culprit_ranks == (1,)
    assert "taken by pid 9001" in taken.explanation


def test_memory_without_a_process_is_only_a_possibility() -> None:
    """A zombie's memory is told where processes are listed at all, and as possible."""
    blocks = [xml_gpu(0, pid=1, **RESTS), xml_gpu(1, **RESTS)]
    report = report_of(gpus(xml_log(blocks)))

    assert [f.signature for f in report.findings] == ["gpu-memory-without-process"]
    assert report.verdict == "inconclusive"
    assert not report_of(gpus(xml_log([xml_gpu(n, **RESTS) for n in range(2)]))).findings


def test_a_brake_on_one_gpu_is_slow() -> None:
    """Held down by heat while the others are not, and no standstill: slow, perhaps."""
    report = report_of(gpus(node({2: {"thermal": "Active"}}, **WORKS)))
    assert [f.signature for f in report.findings] == ["gpu-slowed-down"]
    assert report.verdict == "inconclusive"

    everywhere = report_of(gpus(node(thermal="Active", **WORKS)))
    assert everywhere.findings == ()


def test_a_healthy_machine_gives_nothing() -> None:
    """Idle or at work, with or without a job, in every shape: no finding."""
    idle = {**RESTS, "used": "9 MiB"}
    for text in (
        xml_log([xml_gpu(n, **idle) for n in range(8)]),
        node(**WORKS),
        table("\n".join(row(n, "0%", " 71W") for n in range(8))),
        table(
            "\n".join(row(n, "100%", "640W") for n in range(8)),
            "\n".join(listed(n, 5 + n) for n in range(8)),
        ),
    ):
        report = report_of(gpus(text))
        assert (report.findings, report.verdict) == ((), "inconclusive")
        assert "shows no fault" in report.headline


def test_a_bare_table_is_at_most_a_possibility() -> None:
    """Load at one moment with no stacks: never more than "possibly"."""
    rows = "\n".join(row(n, "0%" if n == 3 else "100%", "118W") for n in range(8))
    processes = "\n".join(listed(n, 100 + n) for n in range(8))
    report = report_of(gpus(table(rows, processes)))

    assert report.verdict == "inconclusive"
    assert all(finding.confidence < 0.5 for finding in report.findings)


def test_ranks_by_environment() -> None:
    """With no pid to go by, LOCAL_RANK picks from CUDA_VISIBLE_DEVICES: indices, UUIDs, MIG."""
    for visible, card in (
        ("4,5", 5),
        (f"{uuid(2)},{uuid(7)[:16]}", None),  # the start of a UUID must be one GPU's alone
        (f"{uuid(2)},{uuid(7)}", 7),
        ("6", 6),
        (None, 1),
        ("4", 4),
    ):
        environ = {} if visible is None else {"CUDA_VISIBLE_DEVICES": visible}
        facts: list[Fact] = [process(1, environ=environ), dump(1, ALL_REDUCE), NCCL]
        case = case_of([*facts, *gpus(node(first_pid=77000))])
        assert case.job.gpus.by_member.get(0) == card, visible


def test_ranks_by_nccl() -> None:
    """The PCI address in a rank's NCCL lines beats its environment, and the conflict is said."""
    bus = f"0000:{BUSES[6].lower()}:00"
    gpu = GpuAddress(bus=bus, who=Who(pid=1001), source=Source(file="nccl.log"))
    facts: list[Fact] = [process(1), dump(1, ALL_REDUCE), NCCL, gpu]
    case = case_of([*facts, *gpus(node(first_pid=77000))])

    assert case.job.gpus.by_member == {0: 6}
    assert any("which GPU rank 1 uses" in str(gap) for gap in case.job.gaps)


def test_pids_of_another_host_do_not_count() -> None:
    """The same pid on two hosts: the rank is on the GPU of its own."""
    who = Who(rank=0, trust=Trust.ENVIRONMENT, host="a", pid=1000)
    one = replace(process(0), who=who)
    facts = [*gpus(node(host="a"), host="a"), *gpus(node(host="b"), host="b")]
    case = case_of([one, *facts])

    assert case.job.gpus.of(0) is not None
    assert case.job.gpus.of(0).host == "a"  # type: ignore[union-attr]


def test_files_without_a_host_are_told_apart_by_uuid() -> None:
    """Two files of one machine are looks at it; a file with other UUIDs is another machine."""
    facts = [
        *gpus(node(host="a"), "one.xml"),
        *gpus(node({0: RESTS}, host="a"), "two.xml"),
        *gpus(node(host="b"), "three.xml"),
    ]
    devices = case_of(facts).job.gpus.devices

    assert len(devices) == 16
    assert devices[0].every("busy") == [100, 0]


STACK = """Process {pid}: python train.py
Python v3.11.2 (/usr/bin/python3.11)

Thread {pid} (idle): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:3100)
    wrapper (torch/distributed/c10d_logger.py:83)
    train (train.py:40)
    <module> (train.py:60)
"""


def hosts(folder: Path, *, broken: Mapping[int, Mapping[str, str]]) -> None:
    """Write what was collected by hand on two hosts: stacks, and nvidia-smi twice on each."""
    for number, host in enumerate(("node1", "node2")):
        changed = broken if number else {}
        for look in (1, 2):
            text = node(changed, host=host, first_pid=1000 * (number + 1), **SPINS)
            (folder / f"{host}.nvidia-smi.{look}.xml").write_text(text)
        for n in range(8):
            path = folder / f"{host}.rank{8 * number + n}.pyspy.txt"
            path.write_text(STACK.format(pid=1000 * (number + 1) + n))


def test_a_folder_of_two_hosts(tmp_path: Path) -> None:
    """Files of any name, of several hosts, read as every user hands them in."""
    hosts(tmp_path, broken={3: RESTS})
    report, _ = report_on([], [str(tmp_path)], options())

    assert report.verdict == "hung"
    assert report.findings[0].signature == "gpu-never-launched"
    assert report.findings[0].culprit_ranks == (11,)
    assert "GPU 3 of node2" in report.findings[0].title


def test_an_xid_and_the_state_it_left_are_one_cause(tmp_path: Path) -> None:
    """The kernel says what happened, the state says which rank: one cause, with its effects."""
    hosts(tmp_path, broken={3: {"mode": "GPU is lost"}})
    (tmp_path / "node2.dmesg.txt").write_text(
        "[ 1234.567890] NVRM: Xid (PCI:0000:61:00): 79, pid=2003, name=python3, "
        "GPU has fallen off the bus.\n"
    )
    report, _ = report_on([], [str(tmp_path)], options())
    first = report.findings[0]

    assert first.category == "gpu-fell-off-bus"
    assert first.culprit_ranks == (11,)
    assert all(f.caused_by == 0 for f in report.findings[1:])


def test_a_folder_of_healthy_hosts(tmp_path: Path) -> None:
    """State alone, of machines at rest, in every shape: nothing is found."""
    (tmp_path / "node1.xml").write_text(node(host="node1", **RESTS))
    (tmp_path / "node2.txt").write_text(table("\n".join(row(n, "0%", " 71W") for n in range(8))))
    report, _ = report_on([], [str(tmp_path)], options())

    assert (report.findings, report.verdict) == ((), "inconclusive")


def options() -> argparse.Namespace:
    """Give the options of a plain call."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    return parser.parse_args(["x"])


def test_a_driver_that_hangs_is_evidence() -> None:
    """What did not come back from the driver makes hardware the cause on that host."""
    silence = DriverSilence(
        says="nvidia-smi -q -x did not come back in 3.1 s and sleeps in the kernel",
        who=Who(host="node7"),
        source=Source(file="node7/claims.json", line=3),
    )
    first = job([silence]).findings[0]

    assert (first.signature, first.culprit_ranks) == ("gpu-driver-hangs", None)
    assert "node7" in first.title


def test_conflicts_are_gaps() -> None:
    """The pid on a GPU wins over the environment, and that they differ is said."""
    environ = {"CUDA_VISIBLE_DEVICES": "7"}
    facts: list[Fact] = [process(1, environ=environ), dump(1, ALL_REDUCE), NCCL]
    case = case_of([*facts, *gpus(node())])

    assert case.job.gpus.by_member == {0: 1}
    gap = next(g for g in case.job.gaps if isinstance(g, Gap) and "which GPU" in g.what)
    assert "GPU 7" in gap.why
