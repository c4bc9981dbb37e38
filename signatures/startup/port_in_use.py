"""The store cannot listen because its port is already in use.

The default ports (29500 for torchrun, 29400 for --standalone) collide as soon as two jobs share
a host, or when a hung earlier run still holds it. Under Slurm the same happens when srun starts
torchrun once per task instead of once per node. The others then connect to the wrong store, or
wait.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="port-in-use",
    category="init-port-in-use",
    kind=Kind.CAUSE,
    title="The port of the store is already taken",
    when=log(
        r"The server socket has failed to bind to \S+:\d+ \(errno: 98 - Address already in use\)",
        r"RuntimeError: Address already in use$",  # torch up to 1.8
        (
            r"The server socket has failed to listen on any local network address\. port: \d+, "
            r"useIpv6: \w+, code: -98"
        ),
    ),
    means=(
        "Rank 0 (or the launcher) could not open the store's port because another process holds "
        "it: an earlier run that still lives, another job on the same host, or two launchers on "
        "one node."
    ),
    confidence=0.95,
    remedies=(
        "Find and end the process that holds the port (ss -ltnp), often left from the last run.",
        "Give each job a port of its own: --master-port, or --rdzv-endpoint HOST:0 with c10d.",
        "Under Slurm start one torchrun per node (--ntasks-per-node=1).",
    ),
    next_steps=(
        "ss -ltnp | grep PORT  # on the master host: who holds it?",
        "ps -o pid,lstart,args -p PID  # of the holder: is it an old rank of the same script?",
    ),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        "RuntimeError: Address already in use",
        (
            "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 "
            "(errno: 98 - Address already in use)."
        ),
        (
            "RuntimeError: The server socket has failed to listen on any local network address. "
            "The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in "
            "use). The server socket has failed to bind to 0.0.0.0:29500 (errno: 98 - Address "
            "already in use)."
        ),
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. port: 39223, useIpv6: false, code: -98, name: EADDRINUSE, "
            "message: address already in use"
        ),
    ),
    misses=(
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. port: 80, useIpv6: false, code: -13, name: EACCES, message: "
            "permission denied"
        ),
    ),
    outranks=(
        "store-client-timeout",
        "port-in-use-python",
    ),
)
