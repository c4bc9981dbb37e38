"""What people write that a hang is about, and why: read where nothing else tells of a cause."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files, document

from whyhang.analyzer.report import Finding
from whyhang.collectors.prose.troubles import troubles


def first(text: str, name: str = "issue.md") -> Finding | None:
    """Return what comes first in the diagnosis of one text."""
    return next(iter(diagnosed_files({name: text}).findings), None)


@pytest.mark.parametrize(
    ("text", "category"),
    [
        (
            (
                "It hangs at the end of every epoch. `evaluate()` stands under "
                "`if trainer.is_global_zero`, and it gathers.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "Workers whose loss is NaN skip the step: some ranks never enter the all-reduce\n"
                "and the rest is stuck in it for good.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "The save deadlocks under ZeRO-3. save_checkpoint is called only by the main "
                "process here.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            "Not all workers call `gather_object`, which blocks everybody else.\n",
            "missing-rank-in-collective",
        ),
        (
            (
                "# Job freezes\n\nThe reward function returns early on an empty batch, before the "
                "`all_gather` of the metrics.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            (
                "Fix a hang with sharded files\n\nThe shards give each worker a different number "
                "of batches.\n"
            ),
            "uneven-inputs",
        ),
        (
            "Training gets stuck in epoch 2: nodes with fewer samples are through.\n",
            "uneven-inputs",
        ),
        ("多卡训练卡住,各进程的batch数量不一致\n", "uneven-inputs"),
        ("With uneven batches DDP waits forever in the last step.\n", "uneven-inputs"),
        (
            (
                "We iterate over a set of names, so ranks call the broadcasts in a different order "
                "and the job deadlocks.\n"
            ),
            "collective-mismatch",
        ),
        (
            (
                "It stalls at step 12. The desynced collectives come from a dict that each host "
                "fills by itself.\n"
            ),
            "collective-mismatch",
        ),
        ("The hang came from mismatched all_gather calls in the logger.\n", "collective-mismatch"),
        (
            "A rank that recompiles for its own shape leaves the others blocked in a collective.\n",
            "compile-divergence",
        ),
        (
            (
                "It timed out in the all-reduce: torch.compile traced a different graph on each "
                "rank.\n"
            ),
            "compile-divergence",
        ),
        ("The pipeline hangs: both stages call recv before they send.\n", "p2p-mismatch"),
        ("Stage 1 is stuck, the isend of its neighbour has no matching irecv.\n", "p2p-mismatch"),
        (
            (
                "The deadlock appears when two process groups are used in opposite order on half "
                "of the machines.\n"
            ),
            "cross-group-deadlock",
        ),
        (
            "One worker stalls and one doesn't, and that one is stuck waiting.\n",
            "missing-rank-in-collective",
        ),
        (
            "Evaluation is only run on a single gpu, hence the hang in the barrier.\n",
            "missing-rank-in-collective",
        ),
        ("It hangs in the last step; with drop_last it does not come up.\n", "uneven-inputs"),
        ("The ranks get to the all-reduce asymmetrically and deadlock.\n", "collective-mismatch"),
        ("gather hangs when the tensors are empty on one rank.\n", "collective-mismatch"),
        (
            "Rank zero is in DDP's forward while every peer waits in a broadcast: deadlock.\n",
            "collective-mismatch",
        ),
        ("When a worker raises in its step, the job hangs until it is killed.\n", "rank-died"),
        ("A crashed node leaves the run blocked for half an hour.\n", "rank-died"),
        ("We see timeouts during checkpoint saves on slow storage.\n", "checkpoint-stall"),
        (
            "The main process writes the weights while the other ranks wait, and time out.\n",
            "checkpoint-stall",
        ),
        (
            "After an epoch it gets stuck: the num of steps for each worker is different.\n",
            "uneven-inputs",
        ),
        (
            "It freezes when gather gets tensors of different shapes on several devices.\n",
            "collective-mismatch",
        ),
        (
            (
                "The check is rank-0-only: its forward enters calls that ranks 1..N-1 never join,\n"
                "and the job is in a desync.\n"
            ),
            "missing-rank-in-collective",
        ),
        (
            "The lock counts diverge across ranks, and the next gather hangs.\n",
            "collective-mismatch",
        ),
        (
            "One rank is stuck in a barrier, its peer back at the broadcast.\n",
            "collective-mismatch",
        ),
        ("Compilation hangs when hosts lower different HLO modules.\n", "compile-divergence"),
        ("A recv hangs when it is paired with an all_reduce of its peer.\n", "p2p-mismatch"),
        ("The server hangs: we do not post a recv for the first send.\n", "p2p-mismatch"),
        (
            "A host that is alive but slow lets the remaining ranks block.\n",
            "missing-rank-in-collective",
        ),
        ("It hangs: some ranks will not run the vision tower.\n", "missing-rank-in-collective"),
        ("Workers that do not get an image go on, the rest block.\n", "missing-rank-in-collective"),
        ("The chunks have inconsistent sizes and the alltoall deadlocks.\n", "collective-mismatch"),
        (
            "It assumes an order of modules that is the same across ranks, and hangs.\n",
            "collective-mismatch",
        ),
        ("Hosts use the layers differently between ranks: a deadlock.\n", "collective-mismatch"),
        ("Masks give ranks different chunk counts, and the job stalls.\n", "uneven-inputs"),
        ("The order of send and recv makes it stuck.\n", "p2p-mismatch"),
        ("With an odd ring the operations never match and it hangs.\n", "p2p-mismatch"),
        (
            (
                "When a rank is saving its profile to a file, others that have none are waiting\n"
                "and time out.\n"
            ),
            "checkpoint-stall",
        ),
        ("多机训练 checkpoint 会卡住\n", "checkpoint-stall"),
        ("A worker that hits StopIteration leaves, the others hang.\n", "uneven-inputs"),
        ("Whichever rank exhausts its loader goes on; the gather stalls.\n", "uneven-inputs"),
        ("Masks give ranks different numbers of packed sequences: a hang.\n", "uneven-inputs"),
        ("The send blocks until a matching recv is posted, and it is not.\n", "p2p-mismatch"),
        (
            "Idle workers miss the all-to-all of their layer, and the busy one deadlocks.\n",
            "missing-rank-in-collective",
        ),
        ("训练超时: 有的进程没有进入 all_reduce\n", "missing-rank-in-collective"),
        ("某个 worker 提前退出循环,其他 worker 卡在 barrier\n", "missing-rank-in-collective"),
        ("多卡卡死,各 rank 通信算子的顺序不一致\n", "collective-mismatch"),
    ],
)
def test_why_it_hangs(text: str, category: str) -> None:
    """A person's words for the cause are a possibility that names nobody."""
    finding = first(text)

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == (category, None)
    assert finding.confidence < 0.5


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("The loss is wrong: some ranks never see the last shard.\n", "issue.md"),
        ("It may hang if some ranks skip the barrier.\n", "issue.md"),
        ("Make sure that all ranks call it, or the job hangs.\n", "issue.md"),
        ("Only rank 0 prints. The run took two hours.\n", "issue.md"),
        ("The ranks hold a different number of samples, and join() handles that.\n", "issue.md"),
        ("It no longer hangs when ranks have a different number of batches.\n", "issue.md"),
        ("Timed out waiting 60000ms for send operation to complete\n", "job.log"),
        ("[rank1]: waiting for the others\n[rank0]: waiting for the others\n", "job.log"),
        ("2031-01-01 10:00:00 some ranks never joined, stuck\n", "a.log"),
        ("Saving the checkpoint took ten seconds.\n", "issue.md"),
        ("Ranks that do not print are fine; the job hung on NFS last week.\n", "issue.md"),
        ("If a rank raises, the job hangs.\n", "README.md"),
        ("A worker fails to compile the kernel.\n", "issue.md"),
        ("It stalls once a rank exhausted its memory.\n", "issue.md"),
        ("各进程都进入了 all_reduce,请把超时时间设大\n", "issue.md"),
        ("rank 0 没有执行保存, 结果不对\n", "issue.md"),
        ("# some ranks never join and it hangs\nx = 1\n", "snippet.py"),
    ],
)
def test_what_explains_no_hang(text: str, name: str) -> None:
    """No hang, a doubt, advice, lines of programs: at most what it speaks of is said."""
    finding = first(text, name)
    about = finding is not None and finding.signature == "said-to-be-about"

    assert finding is None or about or not finding.signature.startswith("said-to")


def test_what_a_log_shows_comes_first() -> None:
    """An explanation beside a log that tells is not listed."""
    log = (
        "[rank1]: Traceback (most recent call last):\n"
        '[rank1]:   File "/job/train.py", line 7, in step\n'
        "[rank1]:     y = x[40]\n"
        "[rank1]: IndexError: index 40 is out of bounds\n"
    )
    said = "It hangs, I think because some ranks never call the barrier.\n"

    found = diagnosed_files({"job.log": log, "issue.md": said}).findings

    assert not any(finding.signature == "said-to-skip-a-call" for finding in found)


CTRL_C = """\
Traceback (most recent call last):
  File "C:\\job\\train.py", line 6, in <module>
    loss = model(batch)
  File "C:\\py\\lib\\torch\\nn\\parallel\\distributed.py", line 1034, in forward
    self._sync_buffers()
  File "C:\\py\\lib\\torch\\nn\\parallel\\distributed.py", line 1621, in _sync_buffers
    self._sync_module_buffers(authoritative_rank)
KeyboardInterrupt
WARNING:torch.distributed.elastic.agent.server.api:Received 2 death signal, shutting down workers
"""
LOST = """\
Traceback (most recent call last):
  File "train.py", line 6, in <module>
    dist.all_reduce(loss)
  File "/py/torch/distributed/distributed_c10d.py", line 1621, in all_reduce
    work.wait()
RuntimeError: [/gloo/transport/tcp/pair.cc:598] Connection closed by peer [10.0.0.2]:28048
"""
STACK = """\
Thread 0x7f... (active): "MainThread"
    all_reduce (torch/distributed/distributed_c10d.py:2050)
    step (train.py:214)
"""


@pytest.mark.parametrize("text", [CTRL_C, STACK])
def test_who_was_seen_waits(text: str) -> None:
    """One stack in a collective: the others are elsewhere, possibly, and nobody is named."""
    finding = first(text, "err.log")

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("only-waiters-seen", None)
    assert finding.confidence < 0.5


def test_who_lost_a_peer_does_not_wait() -> None:
    """A rank that lost its peer in a collective shows that the peer is gone."""
    finding = first(LOST, "err.log")

    assert finding is not None
    assert finding.signature != "only-waiters-seen"


def test_an_effect_leaves_room_for_an_explanation() -> None:
    """Beside a mere consequence a person's words for the cause stand first."""
    log = "[rank0]: WorkNCCL(SeqNum=9, OpType=ALLREDUCE) ran for 60001 ms before timing out\n"
    said = "Epochs hang at their end: the ranks have a different number of batches.\n"

    found = diagnosed_files({"job.log": log, "issue.md": said}).findings

    assert [each.signature for each in found] == ["said-to-be-uneven", "watchdog-timeout"]
    assert found[1].caused_by == 0


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("The job hangs in its DataLoader once the second epoch begins.", "dataloader-blocked"),
        ("It only works with num_workers=0, with more it freezes.", "dataloader-blocked"),
        ("We get a bus error: the pod has run out of shared memory.", "shm-too-small"),
        ("Forking after CUDA was used leads to a deadlock in the child.", "fork-deadlock"),
        ("The hang is in the exchange: the P2P order is fixed on all stages.", "p2p-mismatch"),
        ("Reading from NFS blocks for minutes and the watchdog fires.", "storage-io-blocked"),
        ("Saving a checkpoint never finishes on eight nodes.", "checkpoint-stall"),
        ("With the IOMMU on, the first all-reduce hangs.", "nccl-p2p-or-acs"),
        ("Training gets stuck over RoCE, not over sockets.", "nccl-ib-error"),
        ("The DataLoader worker was killed and the run failed.", "dataloader-worker-died"),
        ("The data loader of one node got killed by a signal.", "dataloader-worker-died"),
        ("The kernel's OOM killer sent SIGKILL to one of them.", "rank-oom-killed"),
        ("Two threads hold a lock each, and it deadlocks.", "gil-or-lock-deadlock"),
        ("It never gets past init_process_group on two hosts.", "init-missing-rank"),
        ("Two of my MPI_Reduce calls hang on this cluster.", "mpi-missing-rank"),
        ("It is stuck in the broadcast of the first step.", "missing-rank-in-collective"),
        ("It is killed by the system after a memory leak.", "rank-oom-killed"),
        ("Three nodes hang, two do not: a networking issue of one.", "nccl-network-interface"),
        ("On preemptible machines it freezes now and then.", "rank-died"),
        ("训练到第二个 epoch 卡住,数据加载没有返回。", "dataloader-blocked"),
        ("# frozen again\n\nI found it.\nA GPU power cable was loose!", "gpu-hardware-xid"),
        ("It hangs: 5 of 6 workers have joined.", "init-missing-rank"),
        ("The trial stays PENDING for hours.", "init-missing-rank"),
        ("The log stops at the import. I deleted the lock_file by hand.", "stale-lock-file"),
        ("It hangs: one rank never actually calls the fence.", "missing-rank-in-collective"),
        ("Training hangs.\nOnly 5 of 6 ranks reach the all_gather.", "missing-rank-in-collective"),
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
        "It hangs, not over cross-node RoCE.",
        "Things I tried when it hung: fewer DataLoader workers.",
        "Moving the data off NFS made no difference, it hangs.",
        "It hangs.\nstep 3: loss=0.5, grad=1.5, the DataLoader failed",
        "It hangs.\n| DataLoader | checkpoint | NFS |\nworkers   : 3 DataLoader workers",
        "Please check the network interfaces if the job hangs.",  # advice
        "Warning: the cache on NFS may lead to hanging at exit.",
        '  File "/x/dataloader.py", line 3, in get\n    raise error',  # a program's
        "2026-01-02 10:00:00 INFO the dataloader failed once",
        "It hangs, root-caused and fixed in the SM86 fork of the repository.",
        "It hangs on NFS, in fork, over RoCE, with pdb, P2P, NVLink, S3, slowly and at a barrier.",
    ],
)
def test_a_text_that_names_no_one_thing_tells_nothing(text: str) -> None:
    """Neither what a program prints nor advice nor a list of all that may be tells a topic."""
    report = diagnosed_files({"issue.md": text + "\n"})
    assert not any(finding.signature == "said-to-be-about" for finding in report.findings)


def test_words_count_only_where_there_is_no_other_finding() -> None:
    """What a log shows goes before what somebody writes that it is about."""
    log = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n"
    report = diagnosed_files({"issue.md": "It hangs in the DataLoader, I think.\n", "r.log": log})
    assert [finding.category for finding in report.findings] == ["gpu-oom"]


@pytest.mark.parametrize(
    ("header", "prose"), [("[W ProcessGroupNCCL.cpp:1569] ", False), ("", True)]
)
def test_a_warning_of_torch_in_sentences_is_nobodys_account(header: str, *, prose: bool) -> None:
    """Its loggers write whole sentences, of a hang that might be."""
    text = f"{header}Rank 0 hangs, as the devices that it uses in the barrier are not known.\n"

    assert bool([*troubles(document(text))]) is prose
