"""Packets of full size vanish on the way to the master's host, while small ones arrive.

The hosts were set to larger frames (MTU 9000) than a switch, a tunnel or an overlay network on the
way carries, and the message that would say so is dropped. Connections are made, short messages
pass; the job hangs at the first long one. Only ``whyhang --probe`` sees it.
"""

from whyhang.analyzer.match import Kind, Signature, large_lost

SIGNATURE = Signature(
    id="init-mtu",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    level="setup",
    title="Packets of {mtu} bytes to {host} vanish for {who}, while small ones arrive",
    when=large_lost(),
    means=(
        "The network of {who} says that it carries packets of {mtu} bytes to {host}{as}; a ping of "
        "that size that may not be cut up gets no answer, a small one does. Every long message "
        "hangs."
    ),
    confidence="strong",
    remedies=(
        (
            "Set the MTU of the hosts' interfaces to what every switch and tunnel between them "
            "carries (ip link set DEV mtu 1500), or raise it on all of the way."
        ),
    ),
    next_steps=(
        "ping -c 3 -M do -s 1472 {host}; ping -c 3 -M do -s 8972 {host}  # which sizes pass?",
    ),
    explains=("stuck-together", "missing-rank-in-collective", "init-not-connected"),
)
