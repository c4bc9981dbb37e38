"""Every rank is creating a process group, and none comes back.

All have come to new_group, so nobody is missing; but ranks that create several groups in
different orders, or with different members, meet different partners and wait for ever.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, all_arrived

SIGNATURE = Signature(
    id="group-creation-order",
    category="group-creation-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="All ranks are creating a process group and none comes back: not the same group for all",
    when=all_arrived(WaitKind.GROUP),
    means=(
        "Everyone stands inside new_group (or a function that calls it) and waits for the other "
        "members. The ranks create groups in different orders or with different members; less "
        "likely, the members cannot connect to each other."
    ),
    confidence="likely",
    remedies=(
        "Create all groups on all ranks in one order; no list of members may depend on the rank.",
        "If the order is right, check the network between the members (GLOO_SOCKET_IFNAME).",
    ),
    next_steps=("grep -rn 'new_group' .  # in the training code: what is the order on each rank?",),
    links=("https://pytorch.org/docs/stable/distributed.html#torch.distributed.new_group",),
    explains=("stuck-together",),
)
