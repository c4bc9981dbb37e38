"""Which rank has which GPU, and which ranks have one between them."""

from __future__ import annotations

import pytest
from gpu_docs import BUSES, gpus, node, uuid, xml_gpu, xml_log
from gpu_jobs import NCCL, RESTS
from log_docs import diagnosed_files
from small_jobs import ALL_REDUCE, case_of, dump, process, report_of, still

from whyhang.analyzer.facts import Fact, Gap, GpuAddress, Source, Trust, Who, replace


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


def test_files_without_a_host_are_distinguished_by_uuid() -> None:
    """Two files of one machine are looks at it; a file with other UUIDs is another machine."""
    facts = [
        *gpus(node(host="a"), "one.xml"),
        *gpus(node({0: RESTS}, host="a"), "two.xml"),
        *gpus(node(host="b"), "three.xml"),
    ]
    devices = case_of(facts).job.gpus.devices

    assert len(devices) == 16
    assert devices[0].every("busy") == [100, 0]


def test_conflicts_are_gaps() -> None:
    """The pid on a GPU wins over the environment, and that they differ is said."""
    environ = {"CUDA_VISIBLE_DEVICES": "7"}
    facts: list[Fact] = [process(1, environ=environ), dump(1, ALL_REDUCE), NCCL]
    case = case_of([*facts, *gpus(node())])

    assert case.job.gpus.by_member == {0: 1}
    gap = next(g for g in case.job.gaps if isinstance(g, Gap) and "which GPU" in g.what)
    assert "GPU 7" in gap.why


COMM = (
    "{host}:{pid}:{pid} [0] NCCL INFO comm 0x5{pid}a rank {rank} nranks 2 cudaDev 0 busId {bus} "
    "- Abort COMPLETE\n"
)


@pytest.mark.parametrize(
    ("second", "shared"),
    [(("n1", "86000"), True), (("n1", "87000"), False), (("n2", "86000"), False)],
)
def test_nccl_prints_one_address_for_two_ranks(second: tuple[str, str], shared: bool) -> None:
    """Two processes of one host at one PCI address share a GPU; on two hosts they do not."""
    host, bus = second
    log = COMM.format(host="n1", pid=4001, rank=0, bus="86000")
    log += COMM.format(host=host, pid=4002, rank=1, bus=bus)
    names = [finding.signature for finding in diagnosed_files({"job.log": log}).findings]

    assert ("gpu-shared-by-ranks" in names) is shared
