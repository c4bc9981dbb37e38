"""NCCL's set-up is through, or begun, on some ranks and not on others.

Each rank prints with NCCL_DEBUG=INFO how far it came: interface, network, Init START, topology,
channels, Init COMPLETE. A rank that never printed Init START has not come to its first
collective; the others wait for it in the bootstrap. One that never printed Init COMPLETE while
the rest did is stuck with its own connections.
"""

from whyhang.analyzer.match import Kind, Signature, nccl_start

SIGNATURE = Signature(
    id="nccl-start-incomplete",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="NCCL's set-up is {state} on {count} ranks; {who} {does}",
    when=nccl_start(apart=True),
    means=(
        "The last line of each rank before the silence tells: {others} have the set-up {state}, "
        "{who} {does}."
    ),
    confidence="likely",
    remedies=(
        "Look at {who} first: where does its Python stack stand, what is in its own log?",
        "If it is in the set-up, compare its NCCL_* variables, interface and devices with others'.",
    ),
    next_steps=(
        "whyhang PID  # on the host of {who}",
        "NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,ENV,NET on the next run, for all ranks",
    ),
    gives_way=True,
    explains=("stuck-together",),
)
