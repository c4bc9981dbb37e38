"""The name of the rendezvous host cannot be resolved on some node.

MASTER_ADDR or the rendezvous endpoint is misspelt, a short name without search domain, a pod
name before its headless service exists, or DNS is down. torch asks for IPv6 addresses first;
the codes -2 and -3 mean that the name is unknown at all, while -5 and -9 only say that it has
no IPv6 address, which is harmless.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-name-unresolved",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    title="The name {host} of the store cannot be resolved",
    when=log(
        (
            r"The IPv4 network addresses of \((?P<host>[^,]+), \d+\) cannot be retrieved \(gai "
            r"error: "
        ),
        (
            r"The IPv6 network addresses of \((?P<host>[^,]+), \d+\) cannot be retrieved \(gai "
            r"error: -[23] "
        ),
    ),
    unless=log(
        r"Init COMPLETE",
        r"Rendezvous complete for workers",
        r"Watchdog caught collective operation timeout",
        r"Completed store-based barrier",
    ),
    means=(
        "The host that should hold the store has a name which this machine cannot turn into an "
        "address, so it never connects."
    ),
    confidence=0.85,
    remedies=(
        "Use an address, or a name that every node resolves (getent hosts NAME).",
        "In Kubernetes, create the headless service first, and set publishNotReadyAddresses.",
    ),
    next_steps=(
        "getent hosts {host}  # on every node",
        "scontrol show hostnames  # on Slurm, inside the job",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "[W1121 02:10:07.491296656 socket.cpp:764] [c10d] The IPv6 network addresses of "
            "(no-such-host.invalid, 56839) cannot be retrieved (gai error: -2 - Name or service "
            "not known)."
        ),
        (
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (train-master-0, 23456) "
            "cannot be retrieved (gai error: -3 - Temporary failure in name resolution)."
        ),
        (
            "[W socket.cpp:601] [c10d] The IPv4 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -2 - Name or service not known)."
        ),
    ),
    misses=(
        (
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -5 - No address associated with hostname)."
        ),
        (
            "[W1121 02:10:07.4 socket.cpp:764] [c10d] The hostname of the client socket cannot "
            "be retrieved. err=-3"
        ),
        (
            "node3:99:140 [1] NCCL INFO ncclCommInitRank comm 0x55d0 rank 1 nranks 8 cudaDev 1 "
            "busId 2b000 commId 0x7c5d - Init COMPLETE"
        ),
        (
            "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for "
            "workers. Result:"
        ),
        (
            "[rank3]:[E1206 18:44:16.997 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught "
            "collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, "
            "Timeout(ms)=600000) ran for 600012 milliseconds before timing out."
        ),
        (
            "INFO:torch.distributed.distributed_c10d:Rank 3: Completed store-based barrier for "
            "key:store_based_barrier_key:1 with 8 nodes."
        ),
    ),
    outranks=(
        "store-client-timeout",
        "store-connect-refused",
        "rendezvous-connection-error",
    ),
)
