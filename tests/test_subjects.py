"""The text of a finding says who it is about: rank, host, GPU and process, wherever known."""

from __future__ import annotations

import golden
import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.wording.subjects import on_host, ranks_named

GPUS = ("1b", "3d", "4c", "5e")
XID = "NVRM: Xid (PCI:0000:3d:00): 79, GPU has fallen off the bus.\n"
INIT = (
    "node{host}:{pid}:{pid} [{local}] NCCL INFO ncclCommInitRank comm 0x5{rank} rank {rank} "
    "nranks 8 cudaDev {local} nvmlDev {local} busId {bus}000 commId 0x77 - Init {how}\n"
)
STARTED = "".join(
    INIT.format(
        host=rank // 4, pid=700 + rank, local=rank % 4, rank=rank, bus=GPUS[rank % 4], how=how
    )
    for how in ("START", "COMPLETE")
    for rank in range(8)
)


def test_a_fault_of_the_kernel_log_is_put_on_the_rank_of_that_gpu() -> None:
    """The kernel names bus and host, NCCL's lines whose they are: title, text and remedy say so."""
    kernel = f"Jun  1 10:00:03 node1 kernel: {XID}"
    first = diagnosed_files({"job.log": STARTED, "kern.log": kernel}).findings[0]

    assert first.culprit_ranks == (5,)
    assert first.title.endswith("(rank 5 on node1)")
    assert "rank 5 on node1 (pid 705, GPU 0000:3d:00)" in first.explanation
    assert first.remedies[0].startswith("Take node1 out of the job")


def test_of_hosts_alike_none_is_named_where_the_line_names_none() -> None:
    """GPUs of all hosts have the same addresses: without a host it is anybody's."""
    first = diagnosed_files({"job.log": STARTED, "dmesg.txt": f"[ 991.2] {XID}"}).findings[0]

    assert first.culprit_ranks is None
    assert "rank" not in first.title
    assert first.remedies[0].startswith("Take the host out of the job")


@pytest.mark.parametrize(
    ("text", "hosts", "expected"),
    [
        ("Take the host out.", ("n1",), "Take n1 out."),
        ("dmesg -T  # on that host", ("n1",), "dmesg -T  # on n1"),
        ("Reboot the host.", ("n1", "n2"), "Reboot the host."),
        ("Reboot the host.", (), "Reboot the host."),
        ("nc -vz A  # on the host of rank 0", ("n1",), "nc -vz A  # on the host of rank 0"),
        (
            "Check the host behind the peer address.",
            ("n1",),
            "Check the host behind the peer address.",
        ),
        (
            "Look at the hosts and the host's memory.",
            ("n1",),
            "Look at the hosts and the host's memory.",
        ),
    ],
)
def test_the_host_is_named_where_it_can_only_be_one(
    text: str, hosts: tuple[str, ...], expected: str
) -> None:
    """What is meant by other words than "the host" alone stays as it is."""
    assert on_host(text, hosts) == expected


def test_no_report_names_other_ranks_in_its_title_than_in_its_json() -> None:
    """Over all golden reports: whom ``culprit_ranks`` names, the title names as well."""
    checked = 0
    for path in golden.FOLDER.iterdir():
        for reports in golden.kept(path.name.removesuffix(".json.zst")).values():
            for finding in (f for report in reports for f in report.get("findings", ())):  # type: ignore[attr-defined]
                culprits = finding["culprit_ranks"] or ()
                assert ranks_named(finding["title"], culprits) == set(culprits), finding["title"]
                checked += len(culprits)
    assert checked > 500
