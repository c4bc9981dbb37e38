"""The name of the master has no address on the host of a rank.

Misspelt, a short name without its search domain, a pod's name before its service exists, an entry
that is missing in /etc/hosts, or DNS that is down. torch asks again and again until its timeout.
"""

from whyhang.analyzer.match import Kind, Signature, cut_off

SIGNATURE = Signature(
    id="init-master-name-unknown",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    level="setup",
    title="The master's name {host} has no address for {who}{why}",
    when=cut_off("unresolved", "unanswered"),
    means=(
        "{who} {is} told to meet at {address}, and that name cannot be resolved there{why}"
        "{elsewhere}. init_process_group asks again until its timeout."
    ),
    confidence="certain",
    remedies=(
        "Use an address, or a name that every host resolves.",
        "In Kubernetes, create the headless service first, and set publishNotReadyAddresses.",
    ),
    next_steps=(
        "getent ahosts {host}  # on every host, inside the container",
        "cat /etc/hosts /etc/resolv.conf  # on the host of {who}",
    ),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "missing-rank-in-collective",
        "stuck-together",
        "store-name-unresolved",
    ),
)
