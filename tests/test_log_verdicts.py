"""What a log says of how the job ended: failed, tried again, went on, or open."""

from __future__ import annotations

import pytest
from gloo_docs import MEMBER, RESET, SHAPE, raised, table
from log_docs import diagnosed

from whyhang.analyzer.findings.signature_toml import signature_of
from whyhang.analyzer.stacks import phrase

NOISE = """\
W1121 02:12:57.3 17467 run.py:874] Setting OMP_NUM_THREADS environment variable for each process
[W1121 02:10:07.4 socket.cpp:764] The hostname of the client socket cannot be retrieved. err=-3
[c10d] The client socket has failed to connect to [::1]:29500 (errno: 97 - Address
[rank0]:[W1121 02:09:20.5 reducer.cpp:1529] Warning: find_unused_parameters=True was specified in
DDP constructor, but did not find any unused parameters in the forward pass.
huggingface/tokenizers: The current process just got forked, after parallelism has already been
used. Disabling parallelism to avoid deadlocks...
epoch 3 step 100/100 loss 2.41
finished training
Warning: WARNING: destroy_process_group() was not called before program exit, which can leak
UserWarning: resource_tracker: There appear to be 12 leaked semaphore objects to clean up
"""


def test_effects_stand_under_their_cause() -> None:
    """A connection that was lost because a peer failed points at that failure."""
    report = diagnosed({0: RESET, 1: SHAPE})

    effects = {f.signature: f.caused_by for f in report.findings[1:]}
    assert effects == {"gloo-peer-gone": 0}


def test_scary_lines_of_a_healthy_job_are_no_hang() -> None:
    """Warnings that every job prints do not become a cause or an effect."""
    report = diagnosed({None: NOISE})

    assert report.verdict == "healthy"
    assert [finding.signature for finding in report.findings] == ["quiet-log"]


def test_logs_that_end_before_the_first_step_are_not_called_healthy() -> None:
    """A job that waits at its start says nothing wrong either: inconclusive, with what to do."""
    text = "[rank0] joining 4 ranks\n[rank1] joining 4 ranks\nworld_size=4\n"
    report = diagnosed({None: text})
    assert report.verdict == "inconclusive"
    assert report.findings[0].next_steps
    both = "[rank0] step 10/10 loss 0.3\n[rank1] step 10/10 loss 0.3\n"
    assert diagnosed({None: text + both}).verdict == "healthy"


def test_communicators_alone_tell_nothing_of_work() -> None:
    """A job that hangs in its first collective leaves NCCL's start behind, and nothing else."""
    comm = "n1:{0}:{0} [{0}] NCCL INFO comm 0x7f5b6400{0} rank {0} nranks 2 cudaDev {0} busId 40"
    start = "NCCL version 2.7.8+cuda10.2\n" + "".join(
        f"{comm.format(rank)} - Init COMPLETE\n" for rank in (0, 1)
    )
    head = "# nThread 1 nGpus 2 minBytes 8 step: 2(factor) warmup iters: 5 iters: 20 validation: 1"
    row = "  8   2   float   sum   -1   9.10   0.00   0.00   0   9.20   0.00   0.00   0"
    assert diagnosed({None: start}).verdict == "inconclusive"
    assert diagnosed({None: f"{head}\n{start}"}).verdict == "inconclusive"
    command = "$ python main.py --lr 0.01 --epochs 20"
    assert diagnosed({None: f"{command}\n{start}"}).verdict == "inconclusive"
    assert diagnosed({None: f"{head}\n{start}{row}\n"}).verdict == "inconclusive"
    end = "# Avg bus bandwidth    : 4.31"
    assert diagnosed({None: f"{head}\n{start}{row}\n{end}\n"}).verdict == "healthy"
    assert diagnosed({None: f"{start}step 10 loss 0.3\nTraining completed.\n"}).verdict == "healthy"


def test_a_host_without_nvswitch_needs_no_fabric_manager() -> None:
    """The service ends where it has nothing to do, and that harms nobody."""
    unit = "Jul 01 13:06:53 n1 systemd[1]: nvidia-fabricmanager.service: Failed with result 'x'."
    idle = "Jul 01 13:06:53 n1 nv-fabricmanager[41]: error:WARNING Nothing to do"
    broken = diagnosed({None: unit})
    assert [finding.category for finding in broken.findings] == ["nvlink-error"]
    needless = diagnosed({None: f"{idle} [NV_WARN_NOTHING_TO_DO]\n{unit}\n"})
    assert "nvlink-error" not in {finding.category for finding in needless.findings}


def test_a_process_stuck_in_the_gpu_driver_is_no_trouble_of_storage() -> None:
    """The call trace below a hung task tells whose call does not return."""
    task = (
        "[721.0] INFO: task python3:5403 blocked for more than 120 seconds.\n"
        '[721.0] "echo 0 > /proc/sys/kernel/hung_task_timeout_secs" disables this message.\n'
        "[721.0]  mutex_lock+0x34/0x40\n[721.0]  {}+0x1e/0x40 [{}]\n"
    )
    driver = diagnosed({None: task.format("uvm_ioctl", "nvidia_uvm")}).findings[0]
    storage = diagnosed({None: task.format("nfs4_file_open", "nfsv4")}).findings[0]
    assert (driver.category, storage.category) == ("gpu-hardware-xid", "storage-io-blocked")


def test_who_waited_in_vain_leads_where_no_cause_is_known() -> None:
    """That the launcher then ended the job says less than that ranks timed out before."""
    timeout = "RuntimeError: [unbound_buffer.cc:78] Timed out waiting 8000ms for recv operation"
    log = f"[rank0]: {timeout} to complete\n[rank1]: {timeout} to complete\n{table(0, 1)}"
    log += "W0101 torch/distributed/elastic/multiprocessing/api.py:1028] Sending process 77 closing"

    report = diagnosed({None: f"{log} signal SIGTERM\n"})

    assert report.verdict == "hung"
    assert report.findings[0].category == "missing-rank-in-collective"
    assert report.findings[0].culprit_ranks is None
    assert "waited in vain" in report.headline


@pytest.mark.parametrize(
    "end",
    [
        "make: *** [Makefile:12: all] Error 2",
        "===== 1 failed, 2 passed in 0.12s =====",
        "ninja: build stopped: subcommand failed.",
        "npm ERR!     /root/.npm/_logs/debug.log",
        "It trains for an hour and then the job hangs.",
    ],
)
def test_a_log_that_ends_on_a_failure_is_not_called_healthy(end: str) -> None:
    """What no signature knows may still be an error, and its last line says so."""
    assert diagnosed({None: f"a line\n{end}\n"}).verdict == "inconclusive"


@pytest.mark.parametrize(
    "end",
    ["3 passed, 0 failed in 0.1s", "final results: val error: 1.23", "Finished without errors"],
)
def test_a_number_of_errors_or_a_metric_is_no_failure(end: str) -> None:
    """A job that counts its errors, or measures one, ends well all the same."""
    assert diagnosed({None: f"epoch 2 loss 0.31\n{end}\n"}).verdict == "healthy"


def test_the_stack_that_python_prints_as_it_dies_is_no_look_at_a_living_job() -> None:
    """A crash with its stack is a failed job; a stack of faulthandler's timer is one that hangs."""
    stack = '(most recent call first):\n  File "/w/ext.py", line 12 in fuse\n'
    crash = f"Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f3c8a7fd740 {stack}"
    assert diagnosed({1: crash}).verdict == "failed"
    timer = f"Timeout (0:05:00)!\nThread 0x00007f3c8a7fd740 {stack}"
    assert diagnosed({0: timer, 1: crash.replace("Fatal Python error: ", "")}).verdict != "failed"


def test_a_log_without_a_time_out_is_recognized_with_the_nccl2_backend_too() -> None:
    """Lines of nccl2 name no call, yet whose log holds none is the one to look at."""
    line = "[E1120 10:42:28.858931807 ProcessGroupNCCL.cpp:410] [TC][rank={0}][name=0] "
    logs = {
        rank: f"step 1\n{line.format(rank)}Operation timed out after 600000 ms\n"
        for rank in (0, 1, 3)
    }
    report = diagnosed({**logs, 2: "step 1\n"})

    assert report.findings[0].signature == "rank-log-without-timeout"
    assert report.findings[0].culprit_ranks == (2,)


def waits_in_group(numbers: dict[int, int]) -> str:
    """Write what the watchdogs of a group say; from the global rank to the number in it."""
    return "".join(
        f"[rank{rank}]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:632] [Rank {number}] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=31, OpType=ALLREDUCE, NumelIn=8, "
        "NumelOut=8, Timeout(ms)=60000) ran for 60013 milliseconds before timing out.\n"
        f"[rank{rank}]:[E419 10:42:28.858931807 ProcessGroupNCCL.cpp:2268] [PG ID 2 PG GUID 5(TP) "
        f"Rank {number}]  failure detected by watchdog at work sequence id: 31 PG status: last "
        "enqueued work: 31, last completed work: 30\n"
        for rank, number in numbers.items()
    )


@pytest.mark.parametrize(
    ("numbers", "together"),
    [
        ({4: 0, 5: 1, 7: 3}, False),
        ({1: 0, 5: 1, 13: 3}, False),
        ({4: 0, 5: 1, 6: 2, 7: 3}, True),
        ({0: 0, 1: 1, 2: 0, 3: 1}, True),
    ],
    ids=["in a row", "with a stride", "all are there", "two groups of one name"],
)
def test_a_silent_member_is_known_by_the_numbers_in_the_group(
    numbers: dict[int, int], *, together: bool
) -> None:
    """Where number 2 of a group says nothing, nobody says that all of it have joined."""
    report = diagnosed({None: waits_in_group(numbers)})
    assert ("stuck-together" in {f.signature for f in report.findings}) is together


LATE = "[ 8811.7] nfs: server {} not responding, still trying\n"
BACK = "[ 8899.1] nfs: server {} OK\n"


@pytest.mark.parametrize(
    ("kernel", "job", "blamed"),
    [
        (LATE.format("a") + BACK.format("a"), "epoch 2 loss 0.3\n", False),
        (LATE.format("a"), "epoch 2 loss 0.3\n", True),
        (LATE.format("a") + BACK.format("b"), "epoch 2 loss 0.3\n", True),
        (LATE.format("a") + BACK.format("a") + LATE.format("a"), "epoch 2 loss 0.3\n", True),
        (LATE.format("a") + BACK.format("a"), waits_in_group({0: 0, 1: 1, 2: 2}), True),
    ],
    ids=["came back", "away", "another came back", "away again", "the job was stopped meanwhile"],
)
def test_an_nfs_server_that_came_back_is_no_cause_for_a_job_that_goes_on(
    kernel: str, job: str, *, blamed: bool
) -> None:
    """The line that ends an interruption counts, unless the job tells of harm."""
    report = diagnosed({None: kernel, 0: job})
    assert ("kernel-nfs-not-responding" in {f.signature for f in report.findings}) is blamed


def test_an_exception_that_ended_a_thread_did_not_end_the_program() -> None:
    """The ranks go on printing; what the thread was good for cannot be told from the log."""
    log = "[rank0] step 1\n[rank1] step 1\nException in thread prefetch:\n"
    log += raised("KeyError: 'targets'") + "[rank0] step 2\n"

    report = diagnosed({None: log})

    assert report.verdict == "inconclusive"
    assert report.findings[0].signature == "thread-raised"
    assert report.findings[0].culprit_ranks is None


def test_a_log_whose_reader_says_that_the_job_hangs_is_not_healthy() -> None:
    """Nothing is known then, but that nothing is wrong is known least."""
    log = "rank 0: step 3/3 loss 0.5\nrank 1: step 3/3 loss 0.5\n"

    assert diagnosed({None: log}).verdict == "healthy"
    assert diagnosed({None: f"In my two-node test it gets stuck:\n{log}"}).findings == ()


def test_words_of_a_finding_fit_their_ranks() -> None:
    """One rank is no "ranks", and a wait is reached, not "waiting"."""
    report = diagnosed({None: "[1] finished collective #4, but didn't join collective #5\n"})

    assert report.findings[0].title.startswith("Rank 1 fell behind")
    assert str(phrase("waiting for a lock file").call) == "the wait for a lock file"
    assert phrase("in all_reduce").call == "all_reduce"


UNRESOLVED = (
    "[W1123 02:04:{second}.925830108 socket.cpp:764] [c10d] The IPv6 network addresses of "
    "(nosuch.invalid, 29400) cannot be retrieved (gai error: -2 - Name or service not known)."
)
GAVE_UP = """\
Traceback (most recent call last):
  File "/srv/app/pretrain.py", line 12, in <module>
    dist.init_process_group("nccl")
torch.distributed.DistNetworkError: Failed to connect to (nosuch.invalid, 29400)
"""


@pytest.mark.parametrize(
    ("below", "verdict"),
    [
        ("", "hung"),
        ("2026-11-23 02:04:59 INFO waiting for the others\n", "hung"),
        (GAVE_UP, "failed"),
        ("pretrain.py: line 3:  4711 Killed    python pretrain.py\n", "failed"),
    ],
    ids=["it ends there", "it says something else", "an exception", "a process ended"],
)
def test_what_is_tried_again_has_not_failed_before_something_ends(below: str, verdict: str) -> None:
    """Resolution of a name is retried; that no line tells of the end is said."""
    tries = "\n".join(UNRESOLVED.format(second=second) for second in range(19, 59, 8))
    report = diagnosed({None: f"{tries}\n{below}"})
    assert report.verdict == verdict
    finding = next(f for f in report.findings if f.signature == "store-name-unresolved")
    assert ("tried again until a timeout" in finding.explanation) == (verdict == "hung")


def test_a_pattern_after_which_it_is_tried_again_is_searched_like_the_others() -> None:
    table = {
        "id": "acmefs-busy",
        "category": "storage-io-blocked",
        "role": "cause",
        "title": "acmefs is busy",
        "explanation": "It is tried again.",
        "retries": ["acmefs: busy, trying again"],
    }
    signature = signature_of(table)
    assert signature.patterns == signature.retries == ("acmefs: busy, trying again",)


@pytest.mark.parametrize(
    ("errors", "step"),
    [
        (
            ["'/data/ck pt/step-9.pt'"],
            "df -h '/data/ck pt/step-9.pt'; df -i '/data/ck pt/step-9.pt'",
        ),
        (["'/data/a.pt'", "'/data/b.pt'"], "df -h PATH; df -i PATH; "),
        (["b'x'"], "df -h PATH; df -i PATH; "),
    ],
    ids=["one file", "two files", "no path"],
)
def test_a_path_that_is_known_stands_in_the_command(errors: list[str], step: str) -> None:
    lines = [f"[rank1]: OSError: [Errno 28] No space left on device: {name}" for name in errors]
    first = diagnosed({None: "\n".join(lines)}).findings[0]
    assert first.signature == "disk-full"
    assert step in first.next_steps[0]
    assert first.next_steps[0].endswith("lfs quota -u $USER PATH")


def test_members_that_all_came_are_no_missing_ones() -> None:
    """Each has announced itself; that the line of Lightning is missing tells something else."""
    everyone = "".join(MEMBER.format(rank, rank + 1) for rank in range(5))
    report = diagnosed({None: everyone})

    assert all(f.signature != "lightning-members-missing" for f in report.findings)


def test_no_step_of_no_steps_is_an_end() -> None:
    """A counter that counts to zero has not come to its end."""
    lines = "".join(f"TRAIN Batch 0/0 loss 4{n}.3 rank {n}\n" for n in range(4))

    assert diagnosed({None: lines + "before validation on device 3\n"}).verdict != "healthy"
