"""What a rank sends to the master's address vanishes, or no way leads there.

A firewall or security group that drops packets, an address of no host, an interface that the
others cannot reach, a host that is down. The sockets of the rank stand in SYN-SENT.
"""

from whyhang.analyzer.match import Kind, Signature, cut_off

SIGNATURE = Signature(
    id="init-master-no-answer",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} {gets} no answer from {address}{as}, where the store should be{why}",
    when=cut_off("unreachable"),
    means=(
        "{who} {is} told to meet at {address}{as}, and nothing comes back from there{why}"
        "{elsewhere}. A firewall drops the packets, no host has that address, or the way to it is "
        "closed."
    ),
    confidence="certain",
    remedies=(
        (
            "Open port {port} of the master's host for every host of the job (firewall, security "
            "group, network policy)."
        ),
        (
            "If the address is not the master's, or of an interface that the others do not reach, "
            "correct MASTER_ADDR."
        ),
    ),
    next_steps=(
        "nc -zv -w 3 {host} {port}  # on the host of {who}",
        "ip route get {resolved}  # on the host of {who}: by which interface?",
        "iptables -S; nft list ruleset  # as root, on both hosts",
    ),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "missing-rank-in-collective",
        "stuck-together",
        "store-connect-refused",
    ),
)
