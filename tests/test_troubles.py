"""What people write that a hang is about, where they name no rank."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("The job hangs in its DataLoader once the second epoch begins.", "dataloader-blocked"),
        ("It only works with num_workers=0, with more it freezes.", "dataloader-blocked"),
        ("We get a bus error: the pod has run out of shared memory.", "shm-too-small"),
        ("Forking after CUDA was used leads to a deadlock in the child.", "fork-deadlock"),
        ("Reading from NFS blocks for minutes and the watchdog fires.", "storage-io-blocked"),
        ("Saving a checkpoint never finishes on eight nodes.", "checkpoint-stall"),
        ("With the IOMMU on, the first all-reduce hangs.", "nccl-p2p-or-acs"),
        ("Training gets stuck over RoCE, not over sockets.", "nccl-ib-error"),
        ("The DataLoader worker was killed and the run failed.", "dataloader-worker-died"),
        ("Two threads hold a lock each, and it deadlocks.", "gil-or-lock-deadlock"),
        ("It never gets past init_process_group on two hosts.", "init-missing-rank"),
        ("Two of my MPI_Reduce calls hang on this cluster.", "mpi-missing-rank"),
        ("It is stuck in the broadcast of the first step.", "missing-rank-in-collective"),
        ("It is killed by the system after a memory leak.", "rank-oom-killed"),
        ("Three nodes hang, two do not: a networking issue of one.", "nccl-network-interface"),
        ("On preemptible machines it freezes now and then.", "rank-died"),
        ("训练到第二个 epoch 卡住,数据加载没有返回。", "dataloader-blocked"),
    ],
)
def test_the_words_of_a_report_tell_what_it_is_about(text: str, category: str) -> None:
    """A sentence that names a topic next to words of trouble is a possibility, naming nobody."""
    report = diagnosed_files({"issue.md": text + "\n"})
    first = report.findings[0]
    assert (first.category, first.culprit_ranks) == (category, None)
    assert first.confidence < 0.5
    assert report.verdict == "inconclusive"


@pytest.mark.parametrize(
    "text",
    [
        "The DataLoader has 4 workers and shuffles.",  # no trouble
        "It hangs, without a DataLoader and with no checkpoint.",  # not it
        "Please check the network interfaces if the job hangs.",  # advice
        "Warning: the cache on NFS may lead to hanging at exit.",
        '  File "/x/dataloader.py", line 3, in get\n    raise error',  # a program's
        "2026-01-02 10:00:00 INFO the dataloader failed once",
        "It hangs on NFS, in fork, over RoCE, with pdb, P2P, NVLink, S3, slowly and at a barrier.",
    ],
)
def test_a_text_that_names_no_one_thing_tells_nothing(text: str) -> None:
    """Neither what a program prints nor advice nor a list of all that may be tells a topic."""
    report = diagnosed_files({"issue.md": text + "\n"})
    assert not any(finding.signature == "said-to-be-about" for finding in report.findings)


def test_words_count_only_where_nothing_else_is_found() -> None:
    """What a log shows goes before what somebody writes that it is about."""
    log = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    report = diagnosed_files({"issue.md": "It hangs in the DataLoader, I think.\n", "r.log": log})
    assert [finding.category for finding in report.findings] == ["gpu-oom"]
