"""A process retries to connect to the store and gets no connection.

'Connection refused' means that the host is there and nothing listens on the port (yet). 'No
route to host' and 'Connection timed out' mean that a firewall or the network is in the way.
During the first seconds the line is normal, because ranks start in any order; it counts only
when nothing shows that start-up went on.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="store-connect-refused",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    title="Connections to the store are refused or find no way ({why})",
    when=log(
        (
            r"The client socket has failed to connect to \S+ \(errno: (?:111|113|110) - "
            r"(?P<why>[^)]*)\)"
        ),
    ),
    unless=log(
        r"Init COMPLETE",
        r"Rendezvous complete for workers",
        r"Watchdog caught collective operation timeout",
        r"Completed store-based barrier",
    ),
    means=(
        "The store's address answers nothing: {why}. A few such lines are normal while rank 0 "
        "starts; if they go on, nothing listens there or the network is closed."
    ),
    confidence=0.4,
    remedies=(
        (
            "Check that rank 0 runs and listens on that port, and that the port is open between "
            "the nodes."
        ),
    ),
    next_steps=(
        "ss -ltnp  # on the master host",
        "nc -zv MASTER_ADDR MASTER_PORT  # from the other nodes",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#tcp-initialization",),
    matches=(
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node01]:29500 "
            "(errno: 111 - Connection refused)."
        ),
        (
            "[W1121 02:10:07.4 socket.cpp:752] [c10d] The client socket has failed to connect to "
            "[10.0.0.1]:29500 (errno: 113 - No route to host)."
        ),
        (
            "[W socket.cpp:697] [c10d] The client socket has failed to connect to "
            "[::ffff:0.104.99.143]:47389 (errno: 110 - Connection timed out)."
        ),
        (
            "[W socket.cpp:558] [c10d] The client socket has failed to connect to "
            "0.0.0.5:40323 (errno: 110 - Connection timed out)."
        ),
    ),
    misses=(
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to [::1]:29500 "
            "(errno: 97 - Address family not supported by protocol)."
        ),
        (
            "[W socket.cpp:601] [c10d] The client socket has failed to connect to "
            "[localhost]:29500 (errno: 99 - Cannot assign requested address)."
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
)
