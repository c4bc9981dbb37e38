"""What failed is told by the object that a line names, in the words of libraries nobody knows."""

from __future__ import annotations

import pytest
from log_docs import diagnosed

from whyhang.analyzer.facts.logs import FAILED
from whyhang.analyzer.queries.logs.what_failed import NAMES
from whyhang.collectors.logs.lines.what_failed import OBJECTS, object_of

START = "Starting on 8 ranks\n"


def test_reader_and_query_know_the_same_objects() -> None:
    """Each object that the reader names can be asked for, and none that it does not."""
    assert {FAILED + name for name in OBJECTS} == {*NAMES}


@pytest.mark.parametrize(
    ("line", "category"),
    [
        (
            "E0402 [rdma_ep.cpp:214] Failed to modify QP to RTS: Connection timed out",
            "nccl-ib-error",
        ),
        ("fabriclib: ibv_create_cq: Cannot allocate memory", "nccl-ib-error"),
        ("src/ibx.cpp:77: non-zero status: 22 unable to create ah", "nccl-ib-error"),
        ("transfer: could not open device mlx5_7 port 1", "nccl-ib-error"),
        ("mylib FATAL: no usable provider found by fi_getinfo: -61", "nccl-network-interface"),
        ("commlib: failed to find network interface 'ib3'", "nccl-network-interface"),
        ("UCX  ERROR uct_iface_open(tcp/eth9) failed: No such device", "nccl-network-interface"),
        ("fabric manager error: 2 NVSwitches not initialized", "nvlink-error"),
        ("Test failure common.cu:91 'system not yet initialized'", "nvlink-error"),
        ("xgmi: link 3 training timeout, port down", "nvlink-error"),
        ("hipIpcOpenMemHandle failed with invalid value", "nccl-p2p-or-acs"),
        ("RuntimeError: XPU out of memory. Tried 2 GiB", "gpu-oom"),
        ("HW Exception by GPU node-2 reason: GPU Hang", "gpu-hardware-xid"),
        ("segment pool: shm_open failed: No space left on device", "shm-too-small"),
        ("terminate called after throwing an instance of 'std::bad_alloc'", "rank-oom-killed"),
        ("listen tcp :8476: bind: address already in use", "init-port-in-use"),
        ("could not resolve host: trainer-3.svc", "init-hostname-resolution"),
        ("dial tcp: lookup head-0: no such host", "init-hostname-resolution"),
        (
            "Waiting to connect to the mesh master (300 seconds) 10.1.1.1:8477",
            "init-master-unreachable",
        ),
        ("unable to contact the scheduler at 10.1.1.1:8786 after 30s", "init-master-unreachable"),
        ("OSError: Timed out trying to connect to tcp://10.1.1.1:8786", "init-master-unreachable"),
        ("rendezvous server n1:4121 is not reachable after 30 attempts", "init-master-unreachable"),
        ("gave up waiting for 2 workers to register", "init-missing-rank"),
        ("only 15 of 16 nodes have reported ready", "init-missing-rank"),
        ("psm2: mmap of rcvhdr_bufbase size 262144 failed: Resource busy", "nccl-ib-error"),
        ("Failed: error custom_all_reduce.cuh:455 'invalid argument'", "nccl-p2p-or-acs"),
        (
            "bootstrap.cc:89 XCOM WARN Timeout waiting for incoming connection",
            "nccl-network-interface",
        ),
        ("client: param ep:[10.2.9.1:30002] rpc error:Connect Failed", "init-master-unreachable"),
        ("Worker proc Worker-TP3 died unexpectedly", "rank-died"),
        ("kernel: NVRM: GPU has fallen off the bus.", "gpu-fell-off-bus"),
        ("scaler: could not find a node type to satisfy the request", "init-missing-rank"),
        ("scheduler: 3 tasks cannot be placed, not enough GPUs", "init-missing-rank"),
        (
            "pml_ucx.c:453  Error: Failed to resolve UCX endpoint for rank 38",
            "nccl-network-interface",
        ),
        ("resolver: failed to resolve trainer-0.jobs.svc", "init-hostname-resolution"),
        ("Error reported: /mnt/x/checkpoint.tmp81; Input/output error", "storage-io-blocked"),
        (
            "Internal: Unable to initialize shared memory key '/m0' to requested size",
            "shm-too-small",
        ),
        ("libgbm: connecting to rank 5 failed, waiting for 2113 ms", "init-missing-rank"),
        ("download failed: s3://b/shard-7.tar to - [Errno 32] Broken pipe", "network-io-blocked"),
        ("reader: (('cloudcat gs://b/t/20.tar -',)): exit 1 (read)", "network-io-blocked"),
        ("Coordination service agent in error: DEADLINE_EXCEEDED: ", "init-master-unreachable"),
        ("RPC: /tensorflow.CoordinationService/RegisterTask", "init-master-unreachable"),
        ("This node has been marked as dead.", "rank-died"),
        ("sync: ranks 3, 5 did not respond within 60s", "missing-rank-in-collective"),
        ("RuntimeError: read(): fd 33 failed with Stale file handle", "storage-io-blocked"),
        ("RuntimeError: flock: Function not implemented", "storage-io-blocked"),
        ("ArrowError: reading /data/a.arrow: [errno 5] Input/output error", "storage-io-blocked"),
        ("HubError: response code: 503 Service Unavailable", "network-io-blocked"),
        ("curl: (28) Failed to connect to files.example", "network-io-blocked"),
        ("Another process must be compiling /var/cache/x, been waiting 31 min", "stale-lock-file"),
        ("sqlite3.OperationalError: database is locked", "stale-lock-file"),
        ("watcher: worker-2 lost: heartbeat timeout 120s", "rank-died"),
    ],
)
def test_the_object_that_failed_tells_the_category(line: str, category: str) -> None:
    """A line of an unknown library leads to what is wrong, where nothing else says more."""
    assert diagnosed({None: START + line + "\n"}).findings[0].category == category


@pytest.mark.parametrize(
    "line",
    [
        "step 10 loss 2.1 reconstruction error: 0.12 connect 8 workers",
        "mlx5_0: port 1 active, 200 Gb/s, QP 0x1234 created",
        "Registered memory region of 4 GiB with provider efa",
        "connected to coordinator at 10.1.1.1:1234",
        "8 of 8 workers reported results",
        "loading /data/file.arrow without errors, opened in 3 s",
        'uvicorn: "GET /health HTTP/1.1" 503 Service Unavailable',
        "node1:10:20 [0] NCCL INFO Failed to open libibverbs.so[.1]",
        "NVLink is active on all 4 GPUs, multicast supported",
        "lock acquired on /root/.cache/x.lock, released after 0.1 s",
        "peer access enabled between all GPUs, IPC handles exchanged",
        "all workers placed, 8 GPUs allocated, resources satisfied",
        "eval accuracy failed to improve for 3 epochs",
        "[W socket.cpp:764] [c10d] The client socket failed to connect to 0.0.0.0:9 (No route)",
        "I suspect that port 29500 is already in use there",
        "It has insufficient GPU memory for that batch",
        "rdma_error_policy: abort",
        'errors_total{type="rdma"} 0',
        "  rdzv_configs             : {'rank': 1, 'timeout': 900}",
        "NCCL_IB_DISABLE=1  # ibv_reg_mr failed here",
        "export NCCL_CUMEM_ENABLE=0 # cannot load nvidia-peermem",
        "    logger.error('failed to connect to master %s', address)",
        "    raise RuntimeError('worker 3 exited unexpectedly')",
        "  --rdma-error-action    what to do when an RDMA error is seen",
        "preemption notice handler installed",
        "health: nvswitch errors=0 nvlink errors=0 failed=0",
        "checking NVLink: no errors",
        "ibv_devinfo | grep -i error",
        "- `failed to connect to the master`: check its address",
        "However, I saw that NVLink could not be used between the pods, only RDMA was",
    ],
)
def test_objects_without_trouble_and_trouble_without_object_say_nothing(line: str) -> None:
    """A word of failure alone, or an object alone, is no finding."""
    assert object_of(line) is None


LOST = "E0402 [ep.cpp:14] Failed to create QP on mlx5_3: error 12\n"


def test_what_the_job_went_on_after_was_no_cause() -> None:
    """Steps below the line show that it was got over."""
    steps = "".join(f"step {n}/1000 loss 2.{n}\n" for n in range(10, 20))

    assert not [f for f in diagnosed({0: LOST + steps}).findings if f.signature == "failed-rdma"]
    assert diagnosed({0: steps + LOST}).findings[0].signature == "failed-rdma"


def test_a_warning_that_it_is_tried_otherwise_is_only_a_possibility() -> None:
    """A library that falls back on another way is not stated to have failed."""
    sure = diagnosed({None: START + LOST}).findings[0]
    falls = diagnosed({None: START + "WARN: " + LOST.strip() + ", falling back to TCP\n"}).findings[
        0
    ]

    assert sure.confidence >= 0.7
    assert falls.confidence < 0.5


RAISED = """[rank{0}]: Traceback (most recent call last):
[rank{0}]:   File "/srv/app/train.py", line 88, in <module>
[rank{0}]:     data = read(path)
[rank{0}]: RuntimeError: read(): fd 33 failed with Remote I/O error
"""


def test_whom_it_ended_is_named_as_with_any_exception() -> None:
    """The rank that raised it is the one to look at, unless all raised it."""
    other = "[rank{0}]: step 3\n"
    one = diagnosed({None: other.format(0) + other.format(2) + RAISED.format(1)}).findings[0]
    everyone = diagnosed({None: "".join(RAISED.format(rank) for rank in range(3))}).findings[0]

    assert (one.signature, one.culprit_ranks) == ("failed-storage", (1,))
    assert (everyone.signature, everyone.culprit_ranks) == ("failed-storage", None)


def test_whom_others_cannot_reach_is_named_unless_it_complains_too() -> None:
    """The rank at the other end is the one to look at; two that accuse each other are not."""
    cannot = "[rank{}]: could not connect to rank {}: timed out\n"
    one = diagnosed({None: cannot.format(0, 2) + cannot.format(1, 2)}).findings[0]
    both = diagnosed({None: cannot.format(0, 2) + cannot.format(2, 0)}).findings[0]

    assert (one.signature, one.culprit_ranks) == ("failed-to-reach-rank", (2,))
    assert (both.signature, both.culprit_ranks) == ("failed-to-reach-rank", None)


NATIVE = """{0}terminate called after throwing an instance of '{1}'
{0}  what():  {2}
"""


def test_an_exception_of_c_plus_plus_ends_a_rank_like_any_other() -> None:
    """Nobody caught it, so the rank is gone; what others brought about is no cause."""
    own = NATIVE.format("[rank1]: ", "acme::Error", "tile 7 is out of range")
    peer = NATIVE.format("[rank1]: ", "gloo::IoException", "Connection closed by peer [::1]:4411")
    finding = diagnosed({None: "[rank0]: step 3\n" + own}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("uncaught-exception", (1,))
    assert "tile 7 is out of range" in finding.title
    after = diagnosed({None: "[rank0]: step 3\n" + peer}).findings
    assert "uncaught-exception" not in {f.signature for f in after}


@pytest.mark.parametrize(
    ("log", "reported"),
    [
        ("KeyError: 'tile_7'\n", True),
        ("Exception ignored in: <function Pool.__del__>\nKeyError: 'tile_7'\n", False),
        ("RuntimeError: the other ranks have not finished loading\n", False),
    ],
    ids=["an exception alone", "one that was ignored", "one about other ranks"],
)
def test_the_last_line_of_a_traceback_alone_tells_what_ended_the_program(
    log: str, *, reported: bool
) -> None:
    """Where a paste has nothing but the exception, it is what is known."""
    signatures = {f.signature for f in diagnosed({None: log}).findings}

    assert ("plain-exception" in signatures) is reported


def test_what_a_program_says_it_goes_on_without_is_no_more_than_possible() -> None:
    """A known error in a line that says that another way is taken is no statement of a cause."""
    line = "TP1: custom allreduce failed: peer access is not supported between these two devices"
    sure = diagnosed({None: line + "\n"}).findings[0]
    passed = diagnosed({None: line + ". To silence this warning, disable it.\n"}).findings[0]

    assert sure.confidence >= 0.7
    assert passed.confidence < 0.5


def test_a_signature_that_knows_the_line_says_more() -> None:
    """NCCL's own words for a queue pair are not told twice."""
    known = (
        "n1:99:140 [1] misc/ibvwrap.cc:150 NCCL WARN Call to ibv_modify_qp failed with error 110"
    )

    assert {f.signature for f in diagnosed({1: known + "\n"}).findings} == {"nccl-ib-modify-qp"}


def test_who_did_not_join_is_named_by_who_waited() -> None:
    """The words are those of any library."""
    log = "RuntimeError: Timeout waiting for ranks [2, 3] to join the group\n"

    assert diagnosed({0: log}).findings[0].culprit_ranks == (2, 3)


def test_a_command_with_a_limit_of_time_is_no_time_out() -> None:
    command = "+ timeout -s SIGKILL 10m ./ring --device mlx5_0:1"

    assert object_of(command.replace("timeout -s SIGKILL", "a timeout of")) is not None
    assert object_of(command) is None


def test_the_options_of_a_command_name_what_may_fail() -> None:
    """Not what did."""
    command = "$mpirun -np 2 -x MXM_HANDLE_ERRORS=debug -mca btl_openib_if_include mlx5_0:1 ring"

    assert object_of(command.replace("mpirun -np", "ring --np")) is not None
    assert object_of(command) is None
