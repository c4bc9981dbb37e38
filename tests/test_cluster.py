"""What ibstat, perfquery, sacct, kubectl and their like print is read, and compared over hosts."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding

NODE = "node{host}:70{rank}:70{rank} [0] NCCL INFO "
COMM = "ncclCommInitRank comm 0x5{rank} rank {rank} nranks 4 cudaDev 0 busId 1b000 commId 0x77 - "
TIMEOUT = (
    "[rank{rank}]:[E601 10:30:03.1 ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught "
    "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, "
    "Timeout(ms)=600000) ran for 600000 milliseconds before timing out.\n"
)


def job(*settings: str) -> str:
    """Write the log of four ranks on two hosts that all time out in one all_reduce."""
    log = [*(f"{one}\n" for one in settings), f"{COMM}Init START\n", f"{COMM}Init COMPLETE\n"]
    lines = [NODE + line for line in log]
    return "".join(
        line.format(rank=rank, host=rank // 2) for line in [*lines, TIMEOUT] for rank in range(4)
    )


HCA = "NCCL_IB_HCA set by environment to mlx5_0,mlx5_1"
IFNAME = "NCCL_SOCKET_IFNAME set by environment to eth1"
BOOTSTRAP = "Bootstrap : Using eth1:10.0.0.{rank}<0>"


def ibstat(*states: str) -> str:
    """Print the ports of one card each."""
    return "".join(
        f"CA 'mlx5_{number}'\n\tCA type: MT4129\n\tNumber of ports: 1\n\tPort 1:\n"
        f"\t\tState: {state}\n\t\tPhysical state: LinkUp\n\t\tRate: 400\n"
        for number, state in enumerate(states)
    )


def first_of(files: dict[str, str], *, also: tuple[str, ...] = ()) -> Finding:
    """Diagnose a job with what stands beside its log, and return the first finding."""
    return diagnosed_files({"job.log": job(*also), **files}).findings[0]


RDMA = "link mlx5_1/1 state {} physical_state {} netdev eth1\n"
IP = "2: eth1: <{}BROADCAST,MULTICAST,UP> mtu 1500 qdisc mq state {} group default qlen 1000\n"
ETHTOOL = "Settings for eth1:\n\tSpeed: Unknown!\n\tDuplex: Unknown!\n\tLink detected: {}\n"


@pytest.mark.parametrize(
    ("also", "files", "signature", "culprits"),
    [
        pytest.param(
            HCA,
            {
                "node0_ibstat.txt": ibstat("Active", "Active"),
                "node1_ibstat.txt": ibstat("Active", "Down"),
            },
            "network-port-down",
            (2, 3),
            id="a port that the job is told to use",
        ),
        pytest.param(
            "",
            {"node1_rdma.txt": RDMA.format("ACTIVE", "LINK_UP") + RDMA.format("DOWN", "POLLING")},
            "network-port-down",
            (2, 3),
            id="a port that was up in an earlier print",
        ),
        pytest.param(
            "",
            {"node1_rdma.txt": RDMA.format("DOWN", "POLLING") + RDMA.format("ACTIVE", "LINK_UP")},
            "network-port-down",
            (2, 3),
            id="a port that comes and goes",
        ),
        pytest.param(
            BOOTSTRAP,
            {"node0_ip.txt": IP.format("", "UP"), "node1_ip.txt": IP.format("NO-CARRIER,", "DOWN")},
            "network-interface-down",
            (2, 3),
            id="an interface over which NCCL meets",
        ),
        pytest.param(
            IFNAME,
            {"session.txt": f"me@node0:~$ ethtool eth1\n{ETHTOOL.format('no')}"},
            "network-interface-down",
            (0, 1),
            id="an interface without link in a terminal's text",
        ),
    ],
)
def test_a_port_that_is_down_is_named_with_its_host(
    also: str, files: dict[str, str], signature: str, culprits: tuple[int, ...]
) -> None:
    """The ranks of that host are where to look, and the text says which host it is."""
    first = first_of(files, also=(also,))

    assert (first.signature, first.culprit_ranks) == (signature, culprits)
    assert f"on node{culprits[0] // 2}" in first.title


@pytest.mark.parametrize(
    "files",
    [
        pytest.param(
            {f"node{n}_ibstat.txt": ibstat("Active", "Down") for n in (0, 1)},
            id="a port that is cabled on no host",
        ),
        pytest.param(
            {
                "node0_ip.txt": "docker0          DOWN           172.17.0.1/16\n",
                "node1_ip.txt": "docker0          UP             172.17.0.1/16\n",
            },
            id="a bridge of containers",
        ),
        pytest.param({"node1_ibstat.txt": ibstat("Active", "Active")}, id="all up"),
        pytest.param(
            {"notes.txt": "Settings for eth1: we thought of ethtool. State: Down on Monday?\n"},
            id="words of a person",
        ),
    ],
)
def test_ports_that_nobody_uses_are_left_alone(files: dict[str, str]) -> None:
    """Most hosts have ports that are down and never were to be up."""
    findings = diagnosed_files({"job.log": job(), **files}).findings

    assert not [one for one in findings if one.signature.startswith("network-")]


PERFQUERY = (
    "# Port counters: Lid 12 port 1 (CapMask: 0x5A00)\nPortSelect:......................1\n"
    "SymbolErrorCounter:..............{}\nLinkDownedCounter:...............{}\n"
    "PortXmitData:....................{}\n"
)
STATISTICS = (
    "me@node1:~$ ethtool -S eth1\nNIC statistics:\n     rx_packets: {}\n"
    "     rx_crc_errors_phy: {}\n"
)
COUNTERS = "link mlx5_0/1 rx_write_requests {} out_of_sequence {} local_ack_timeout_err 0\n"


@pytest.mark.parametrize(
    ("files", "grew"),
    [
        pytest.param(
            {"node1_perfquery.txt": PERFQUERY.format(4, 2, 9) + PERFQUERY.format(4, 5, 99)},
            "LinkDownedCounter of Lid 12 port 1 from 2 to 5",
            id="perfquery",
        ),
        pytest.param(
            {"node1.txt": STATISTICS.format(1, 8) + "sleep 60\n" + STATISTICS.format(9, 1108)},
            "rx_crc_errors_phy of eth1 from 8 to 1,108",
            id="ethtool",
        ),
        pytest.param(
            {
                "node1_before.txt": COUNTERS.format(1, 70),
                "node1_after.txt": COUNTERS.format(1, 71_000),
                "node0_before.txt": COUNTERS.format(1, 5),
                "node0_after.txt": COUNTERS.format(1, 5),
            },
            "out_of_sequence of mlx5_0/1 from 70 to 71,000",
            id="rdma statistic",
        ),
        pytest.param(
            {"node1_perfquery.txt": PERFQUERY.format(4, 900, 9) + PERFQUERY.format(4, 900, 99)},
            None,
            id="high, and no higher in the second print",
        ),
        pytest.param({"node1_perfquery.txt": PERFQUERY.format(4, 900, 9)}, None, id="one print"),
        pytest.param(
            {
                f"node{n}.txt": COUNTERS.format(1, 7 + n) + COUNTERS.format(9, 90 + n)
                for n in (0, 1)
            },
            None,
            id="as many on every host",
        ),
        pytest.param(
            {"a.txt": COUNTERS.format(1, 3).replace("mlx5_0/1", "mlx5_2/1"), "b.txt": "rx: 5\n"},
            None,
            id="other things",
        ),
    ],
)
def test_counters_of_errors_count_where_they_grow(files: dict[str, str], grew: str | None) -> None:
    """A high number is history; one that grew between two prints is now."""
    findings = diagnosed_files({"job.log": job(), **files}).findings
    chosen = [one for one in findings if one.signature == "network-errors-grew"]

    assert bool(chosen) is bool(grew)
    assert not grew or (grew in findings[0].title and "on node1" in findings[0].title)


SACCT = (
    "JobID           JobName  Partition    Account  AllocCPUS      State ExitCode \n"
    "------------ ---------- ---------- ---------- ---------- ---------- -------- \n"
    "{id:<12}      train        gpu       acct         64 {state:>10}    0:125 \n"
    "{id}.0           python                  acct         64 {state:>10}    0:125 \n"
)
SQUEUE = (
    "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)\n"
    "               {id}       gpu    train      bob {state:>2}      10:00      2 node[0-1]\n"
)
NODE_RECORD = (
    "NodeName=node1 Arch=x86_64 CoresPerSocket=32 \n   CPUAlloc=0 CPUTot=64 CPULoad=0.00\n"
    "   State={state} ThreadsPerCore=1 TmpDisk=0 Weight=1\n"
    "   Reason=Not responding [slurm@2026-05-01T10:00:00]\n"
)
PODS = (
    "NAME             READY   STATUS      RESTARTS      AGE\n"
    "train-master-0   1/1     Running     0             10m\n"
    "train-worker-0   1/1     Running     1 (5m ago)    10m\n"
    "train-worker-1   1/1     Running     0             10m\n"
    "train-worker-2   {ready}     {state:<11} 0             10m\n"
)
DESCRIBED = (
    "Name:             train-worker-2\nNamespace:        ml\nNode:             <none>\n"
    "Status:           Pending\nConditions:\n  Type           Status\n  PodScheduled   False\n"
    "Events:\n  Type     Reason            Age   From               Message\n"
    "  ----     ------            ----  ----               -------\n"
    "  Warning  FailedScheduling  5m    default-scheduler  0/5 nodes are available: 5 "
    "Insufficient nvidia.com/gpu.\n"
)
NODES = (
    "NAME    STATUS     ROLES    AGE   VERSION\nnode0   Ready      <none>   90d   v1.29.1\n"
    "node1   {:<10} <none>   90d   v1.29.1\n"
)
BARRIER = (
    "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. "
    "3/4 clients joined.\n"
)


@pytest.mark.parametrize(
    ("name", "text", "signature", "culprits"),
    [
        ("sacct.txt", SACCT.format(id=4711, state="OUT_OF_ME+"), "scheduler-out-of-memory", None),
        ("sacct.txt", SACCT.format(id=4711, state="NODE_FAIL"), "scheduler-took-away", None),
        ("squeue.txt", SQUEUE.format(id=4711, state="S"), "scheduler-suspended", None),
        ("node.txt", NODE_RECORD.format(state="DOWN*+DRAIN"), "scheduler-node-lost", (2, 3)),
        ("nodes.txt", NODES.format("NotReady"), "scheduler-node-lost", (2, 3)),
        ("pods.txt", PODS.format(ready="0/1", state="Evicted"), "scheduler-took-away", (3,)),
        ("pods.txt", PODS.format(ready="0/1", state="Pending"), "scheduler-not-started", (3,)),
    ],
)
def test_what_the_scheduler_says_of_the_job_is_the_cause(
    name: str, text: str, signature: str, culprits: tuple[int, ...] | None
) -> None:
    """Nodes are put to the ranks on them, pods to theirs."""
    first = first_of({name: text})

    assert (first.signature, first.culprit_ranks) == (signature, culprits)


def test_a_pod_that_no_node_has_room_for_is_the_rank_that_did_not_come() -> None:
    """The store counts three of four, kubectl says which pod waits and for what."""
    files = {"pods.txt": PODS.format(ready="0/1", state="Pending"), "pod.txt": DESCRIBED}
    first = diagnosed_files({"job.log": BARRIER, **files}).findings[0]

    assert (first.signature, first.category) == ("scheduler-not-started", "init-missing-rank")
    assert first.culprit_ranks == (3,)
    assert "Insufficient nvidia.com/gpu" in first.title
    assert "kubectl describe pod POD" not in first.next_steps[0]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("sacct.txt", SACCT.format(id=4711, state="COMPLETED")),
        ("sacct.txt", SACCT.format(id=4711, state="RUNNING")),
        ("sacct.txt", SACCT.format(id=4711, state="RUNNING") + SQUEUE.format(id=4712, state="S")),
        ("node.txt", NODE_RECORD.format(state="ALLOCATED")),
        ("node.txt", NODE_RECORD.format(state="MIXED+DRAIN")),
        ("node.txt", NODE_RECORD.format(state="DOWN*").replace("node1", "node77")),
        ("nodes.txt", NODES.format("Ready")),
        ("pods.txt", PODS.format(ready="1/1", state="Running")),
        ("pods.txt", PODS.format(ready="1/1", state="Completed")),
        ("pods.txt", PODS.format(ready="1/1", state="Running") + "web-0  0/1  Pending  0  10m\n"),
    ],
)
def test_what_is_of_other_jobs_or_in_order_is_no_cause(name: str, text: str) -> None:
    """Other jobs' rows, nodes that this job is not on, nodes that drain, pods that run."""
    findings = diagnosed_files({"job.log": job(), name: text}).findings

    assert not [one for one in findings if one.signature.startswith("scheduler-")]


@pytest.mark.parametrize(
    "text",
    [
        ibstat("Active", "Active"),
        f"me@node0:~$ rdma link\n{RDMA.format('ACTIVE', 'LINK_UP')}",
        SQUEUE.format(id=4711, state="R"),
        NODES.format("Ready"),
    ],
)
def test_a_print_without_fault_is_no_log_of_a_job(text: str) -> None:
    """It is read as what it is, and not as a log that ends early."""
    report = diagnosed_files({"print.txt": text})

    assert report.findings == ()
    assert "shows no fault" in report.headline


def test_a_fault_of_a_machine_alone_is_no_hang() -> None:
    """Nothing tells of a job, so that a port is down is said as a possibility."""
    texts = {f"node{n}_ibstat.txt": ibstat("Active", "Down" if n else "Active") for n in (0, 1)}
    report = diagnosed_files(texts)

    assert (report.verdict, report.findings[0].signature) == ("inconclusive", "network-port-down")
    assert report.headline.startswith("Possibly: Port mlx5_1/1 on node1 is Down")


CRASHING = """\
NAME             READY   STATUS             RESTARTS   AGE
run-master-0     1/1     Running            0          9m
run-worker-0     1/1     Running            0          9m
run-worker-1     0/1     CrashLoopBackOff   6          9m
"""


def test_of_pods_alone_each_is_a_rank() -> None:
    """The master is the first, and the workers follow."""
    finding = diagnosed_files({"pods.txt": CRASHING}).findings[0]

    assert (finding.signature, finding.culprit_ranks) == ("scheduler-crash-loop", (2,))
