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
