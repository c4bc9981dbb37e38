"""Lines that look like an end and are none, ends that look like none, and texts that are cut."""

from log_docs import diagnosed_files

WATCHDOG = (
    "[rank{0}]:[E516 06:09:16.29566604{0} ProcessGroupNCCL.cpp:629] [Rank {0}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=810, OpType=ALLREDUCE, NumelIn=192, "
    "NumelOut=192, Timeout(ms)=600000) ran for 600076 milliseconds before timing out.\n"
)
IGNORED = """Exception ignored in: <finalize object at 0x7f7d7b9bc920; dead>
Traceback (most recent call last):
  File "/w/tidy.py", line 585, in __call__
    raise TimeoutError("took too long")
TimeoutError: took too long
"""


def test_an_exception_that_the_interpreter_ignores() -> None:
    """A finalizer that raises ends nothing: who waits in vain is what matters."""
    report = diagnosed_files({"job.log": IGNORED + WATCHDOG.format(1) + WATCHDOG.format(2)})

    assert not any(finding.signature == "uncaught-exception" for finding in report.findings)
    assert report.findings[0].culprit_ranks == (0,)


CUT = """[rank3]: Traceback (most recent call last):
[rank3]:   File "/w/train.py", line 80, in step
[rank3]:     dist.broadcast(weights, src=0)
[rank3]: RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors while \
waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.
[rank3]:  Original exception:
[rank3]: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:133] Timed out waiting \
600000ms for send operation to complete
[rank2]: Traceback (most recent call last):
[rank2]:   File "/w/train.py", line 80, in step
[rank2]:     dist.broadcast(weights, src=0)
"""


def test_a_traceback_that_is_cut_is_no_silence() -> None:
    """Where a text breaks off in a traceback of a rank, that rank may have waited as well."""
    report = diagnosed_files({"job.log": CUT})

    assert report.findings[0].culprit_ranks == (0,)


TABLE = """[1,0]<stderr>:Authorization required, but no protocol specified
[1,1]<stderr>:Authorization required, but no protocol specified
[1,0]<stdout>:#  Rank  0 Group  0 Pid 2447 on   lab device  0 [0000:02:00] NVIDIA RTX
[1,0]<stdout>:#  Rank  1 Group  0 Pid 2448 on   lab device  1 [0000:03:00] NVIDIA RTX
[1,0]<stdout>:     1048576    262144     float     sum      -1  4366.46    0.24    0.24       0
[1,0]<stdout>:# Out of bounds values : {}
[1,0]<stdout>:# Avg bus bandwidth    : 0.24
"""


def test_a_table_that_one_rank_prints_for_all() -> None:
    """What nccl-tests sums up is the end of all its ranks; wrong values are no good one."""
    good, bad = (diagnosed_files({"x.log": TABLE.format(said)}) for said in ("0 OK", "3 FAILED"))

    assert (good.verdict, bad.verdict) == ("healthy", "failed")


def test_an_end_behind_a_bar() -> None:
    """A trainer may say that it has finished behind a progress bar, without a line break."""
    bar = "Epoch 9: 100%|#####| 860/860 [00:05<00:00, 162.25it/s, loss=1.4]"
    log = f"{bar}`Trainer.fit` stopped: `max_epochs=10` reached.\n{bar}\n\n"

    assert diagnosed_files({"out.txt": log}).verdict == "healthy"


STACK = """Training freezes after some epochs on 4 nodes. {} This happens each time.

The stack for rank0:
Thread 0x7FA6E7C01740 (idle): "MainThread"
    wait (threading.py:302)
    get (queue.py:170)
    next_sample (reader.py:48)
    main (train.py:165)
"""


def test_what_is_said_of_all_others_beside_a_stack() -> None:
    """One stack, and a sentence on where all others stand, are a job of which all is known."""
    said = "When I looked, it hung. All the other 31 ranks are waiting in all_reduce()."
    report = diagnosed_files({"thread.txt": STACK.format(said)})
    doubt = diagnosed_files({"thread.txt": STACK.format("The other 31 ranks should be waiting.")})

    assert report.findings[0].culprit_ranks == (0,)
    assert report.findings[0].title.startswith("Rank 0 has not reached all_reduce")
    assert not any(finding.culprit_ranks for finding in doubt.findings)


def test_bytes_of_another_rank_are_no_checkpoint() -> None:
    """Objects that ranks send each other are pickled as well."""
    log = """[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/torch/distributed/distributed_c10d.py", line 3154, in broadcast_object_list
[rank1]:     object_list[i] = _tensor_to_object(obj_view, obj_size, group)
[rank1]:   File "/w/torch/distributed/distributed_c10d.py", line 2649, in _tensor_to_object
[rank1]:     return _unpickler(io.BytesIO(buf)).load()
[rank1]: _pickle.UnpicklingError: invalid load key, '\\x00'.
"""
    report = diagnosed_files({"job.log": log})

    assert not any(f.signature == "checkpoint-unreadable" for f in report.findings)


def test_a_cut_exception_of_who_waited_in_vain() -> None:
    """What a rank raises behind its own limit, in words that are cut off, is that wait."""
    log = """[rank1]:[W516 14:34:56.854 socket.cpp:489] [c10d] waitForInput: socket \
SocketImpl(fd=7, addr=[localhost]:41170, remote=[localhost]:29500) timed out after 1800000ms
[rank1]: Traceback (most recent call last):
[rank1]:   File "/w/train.py", line 124, in <module>
[rank1]:     fire(main)
[rank1]:   File "/w/train.py", line 12, in main
[rank1]:     barrier()
"""
    report = diagnosed_files({"job.log": log})

    assert report.findings[0].signature == "store-key-wait"
    assert not any(finding.culprit_ranks for finding in report.findings)


def test_mpi_aborts_because_of_the_network() -> None:
    """What the network says explains that MPI ends the job: its error is no deed of the rank."""
    log = """libfabric:ofi_rxm:cq:rxm_cq_read_write_error():700<warn> fi_cq_readerr: err: 5, \
prov_err: transport retry counter exceeded (12)
Abort(205072015) on node 16 (rank 16 in comm 0): Fatal error in PMPI_Alltoall: Other MPI error, \
error stack:
"""
    report = diagnosed_files({"job.log": log})

    assert report.findings[0].category == "nccl-ib-error"


def test_an_error_in_the_source_is_of_no_rank() -> None:
    """All ranks read the same file: whom the launcher saw fail first was merely first."""
    log = """Traceback (most recent call last):
  File "/w/models/flash.py", line 1914
    loss = - (total / count))
                            ^
SyntaxError: unmatched ')'
E1208 13:24:30.680000 1293261 torch/distributed/elastic/multiprocessing/api.py:869] failed \
(exitcode: 1) local_rank: 6 (pid: 1293302) of binary: /env/bin/python3
"""
    first = diagnosed_files({"job.log": log}).findings[0]

    assert (first.category, first.culprit_ranks) == ("not-distributed", None)


CARD = (
    "[1,{0}]<stdout>:c57:81{0}:86{0} [0] transport/net_ib.cu:80 NCCL WARN NET/IB : "
    "Got async event : local catastrophic error\n"
)


def test_few_ranks_with_high_numbers_are_not_most() -> None:
    """Where ranks 12 to 14 alone speak there are twelve more: it is the card of their host."""
    report = diagnosed_files({"job.log": "".join(map(CARD.format, (12, 13, 14)))})
    of_all = diagnosed_files({"job.log": "".join(map(CARD.format, (0, 1, 2)))})

    assert report.findings[0].culprit_ranks == (12, 13, 14)
    assert of_all.findings[0].culprit_ranks is None


def test_a_session_with_several_commands() -> None:
    """What an earlier command printed is of another job, in which ranks had other roles."""
    first = "".join(
        f"[Rank {rank}] whole: tensor\n[Rank {rank}] part: tensor\n" for rank in range(4)
    )
    second = "".join(f"[Rank {rank}] part: tensor\n" for rank in range(4))
    second += "".join(f"[Rank {rank}] sending to rank 0\n" for rank in range(1, 4))
    second += "[Rank 0] gathered: tensor\n"
    log = f"$ torchrun --nproc_per_node=4 a.py\n{first}$ torchrun --nproc_per_node=4 b.py\n{second}"
    report = diagnosed_files({"run.txt": log})

    assert not any(finding.culprit_ranks for finding in report.findings)


ROW = (
    "E0703 15:37:24.100000 1800 torch/distributed/elastic/multiprocessing/api.py:869] failed "
    "(exitcode: 1) local_rank: 3 (pid: 1850) of binary: /env/bin/python3\n"
)
SIGNAL = (
    "[rank4]:[E703 15:37:17.178360488 ProcessGroupNCCL.cpp:1987] [PG ID 0 PG GUID 0(default_pg) "
    "Rank 4] Received a dump signal due to a collective timeout from  rank 7 and we will try our "
    "best to dump the debug info. Last enqueued NCCL work: 56, last completed NCCL work: 56.\n"
)


def test_an_exit_behind_a_collective_that_timed_out() -> None:
    """Whom the launcher saw end first is nobody to look at where another call timed out before."""
    alone, behind = (diagnosed_files({"job.log": log}) for log in (ROW, SIGNAL + ROW))

    assert any(finding.signature == "launcher-exit-code" for finding in alone.findings)
    assert not any(finding.culprit_ranks for finding in behind.findings)


def test_work_that_outlasts_the_limit_of_gloo() -> None:
    """Gloo says its limit in milliseconds; a rank that worked longer was waited for."""
    log = "".join(
        f"[rank{rank}]: RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81]"
        " Timed out waiting 1800000ms for recv operation to complete\n"
        for rank in (0, 1, 2)
    )
    slow = diagnosed_files({"job.log": log + "[rank3]: upload finished (3067.3 s)\n"})
    quick = diagnosed_files({"job.log": log + "[rank3]: upload finished (30.3 s)\n"})

    assert slow.findings[0].signature == "work-outlasts-limit"
    assert slow.findings[0].culprit_ranks == (3,)
    assert not any(finding.signature == "work-outlasts-limit" for finding in quick.findings)


def test_who_sends_no_heartbeat() -> None:
    """A program's own watchdog names whom it waits for, by whatever word it has for a rank."""
    log = "".join(f"[{rank}/4] batch {n}\n" for n in range(4) for rank in range(4))
    report = diagnosed_files({"job.log": f"{log}[0/4] no heartbeat from worker 3 for 120 s\n"})

    assert report.findings[0].signature == "failed-awaited-rank"
    assert report.findings[0].culprit_ranks == (3,)
