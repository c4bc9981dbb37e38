"""Nobody listens where a rank was told that the store is.

A wrong address, a wrong or closed port, a firewall that rejects, or an address that leads every
host to itself (docker0 has the same one everywhere). That rank 0 is merely late is told apart
where rank 0 can be seen.
"""

from whyhang.analyzer.match import Kind, Signature, cut_off

SIGNATURE = Signature(
    id="init-master-refuses",
    category="init-master-unreachable",
    kind=Kind.CAUSE,
    level="setup",
    title="Nobody listens for {who} at {address}{as}, where the store should be",
    when=cut_off("refused"),
    means=(
        "{who} {is} told to meet at {address}{as}, and the connection is refused{own}{elsewhere}. "
        "Nothing listens there (a wrong address or port, or rank 0 runs elsewhere or not yet), or "
        "a firewall rejects it."
    ),
    confidence="certain",
    remedies=(
        (
            "Let MASTER_ADDR be an address of rank 0's host that every other host reaches, and "
            "MASTER_PORT the port that rank 0 listens on."
        ),
        "Open that port between the hosts.",
    ),
    next_steps=(
        "ss -ltnp | grep :{port}  # on the host of rank 0: on which address does it listen?",
        "nc -zv {host} {port}  # on the host of {who}",
        "ip -br address  # on both: which of them has {resolved}?",
    ),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "missing-rank-in-collective",
        "stuck-together",
        "store-connect-refused",
    ),
)
