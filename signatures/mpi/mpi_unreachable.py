"""MPI finds no way to connect two of its processes.

The hosts share no network that the chosen components can use: a wrong btl or pml selection, an
interface that is excluded, UCX without a common transport, a container without /dev/infiniband.

The lines below name the pair.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-unreachable",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="Two MPI processes have no network in common",
    when=log(
        r"At least one pair of MPI processes are unable to reach each other",
        r"ucp_ep_create\(.*\) failed: Destination is unreachable",
        (
            r"UCX +ERROR +no (?:active messages|auxiliary|remote \w+) transport to .*: "
            r"Unsupported operation|UCX +ERROR +no .* transport to \S+: .*[Uu]nreachable"
        ),
    ),
    means="No network component can connect these processes, so MPI cannot start.",
    confidence=0.9,
    remedies=(
        (
            "Remove restrictive --mca btl, pml or UCX_TLS settings; include a transport that "
            "all hosts share (tcp)."
        ),
        "Pin the interfaces with --mca btl_tcp_if_include (or UCX_NET_DEVICES).",
    ),
    next_steps=(
        "ip -br addr; ucx_info -d  # on both hosts",
        "mpirun --mca btl_base_verbose 30 PROGRAM  # says why each transport was left out",
    ),
    links=("https://docs.open-mpi.org/en/main/tuning-apps/networking/tcp.html",),
    matches=(
        "At least one pair of MPI processes are unable to reach each other for",
        (
            "[n0042:20133] pml_ucx.c:424  Error: ucp_ep_create(proc=1) failed: Destination is "
            "unreachable"
        ),
        (
            "[1719838013.21] [n0042:20133:0] select.c:629  UCX  ERROR   no active messages "
            "transport to <no debug data>: Unsupported operation"
        ),
    ),
    misses=("ORTE was unable to reliably start one or more daemons.",),
    outranks=("launcher-exit-code",),
)
