"""One name of the master leads to different addresses on different hosts.

An old line in /etc/hosts, two networks with their own DNS, a name that was moved. The ranks whose
hosts find the wrong one never reach the store.
"""

from whyhang.analyzer.match import Kind, Signature, resolves_apart

SIGNATURE = Signature(
    id="init-master-name-differs",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    level="setup",
    title="The name {host} is {resolved} for {who}, and {usual} for {others}",
    when=resolves_apart(),
    means=(
        "{who} {is} told the same name, {host}, and {gets} another address for it ({resolved}), "
        "where {says}; {others} find the store at {usual}."
    ),
    confidence="certain",
    remedies=(
        "Correct /etc/hosts or DNS on the host of {who}, or give an address as MASTER_ADDR.",
    ),
    next_steps=("getent ahosts {host}  # on every host, inside the container",),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "init-master-refuses",
        "init-master-no-answer",
        "missing-rank-in-collective",
        "stuck-together",
    ),
)
