"""NCCL's health network runs, and no communicator has come into being.

A communicator is listed after its ranks have exchanged their addresses. None at all means that
the first one waits for a rank that has not called in, or for the bootstrap network.

Which rank that is, RAS cannot say; the rendezvous, the stacks and the NCCL logs can.
"""

from whyhang.analyzer.match import Kind, Signature, ras

SIGNATURE = Signature(
    id="ras-nothing-yet",
    category="init-missing-rank",
    kind=Kind.CAUSE,
    level="fallback",
    title="NCCL has no communicator yet: some rank has not joined the first one",
    when=ras("none", named=False),
    means="The ranks that are there wait in NCCL's bootstrap for others, or for their network.",
    confidence="possible",
    remedies=(
        "Find the rank that has not called: compare the Init START lines of the NCCL logs.",
        "Check the bootstrap network: NCCL_SOCKET_IFNAME, open ports between the hosts.",
    ),
    next_steps=(
        "whyhang PID  # on every host",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,BOOTSTRAP,NET on the next run",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html",),
    last_resort=True,
)
