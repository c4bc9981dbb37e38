"""Packets of full size vanish on the way to the master's host, while small ones arrive.

The hosts were set to larger frames (MTU 9000) than a switch, a tunnel or an overlay network on the
way carries, and the message that would say so is dropped. Connections are made, short messages
pass; the job hangs at the first long one. Only ``whyhang --probe`` sees it.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for all ranks of which that is so; it is the way, not the rank."""
    lost = [v for v in case.job.stores if v.echo_small is True and v.echo_large is False]
    pids = {pid for view in lost for pid in view.asked_by}
    members = [m.id for m in case.job.members if m.pid in pids]
    if not members or case.graph.progress:
        return
    fields = queries.subject_fields(case, [case.states[number] for number in members], ())
    fields |= {**queries.view_fields(lost[0]), "mtu": str(lost[0].mtu)}
    yield Hit(
        affected=tuple(members),
        evidence=tuple(
            queries.cite(
                view.source,
                f"ping {view.host}, as pid {view.asked_by[0]}: 84 bytes answered, "
                f"{view.mtu} bytes not",
            )
            for view in lost[:3]
        ),
        names_culprit=False,
        fields=fields,
    )


SIGNATURE = Signature(
    id="init-mtu",
    category="nccl-network-interface",
    level="setup",
    title="Packets of {mtu} bytes to {host} vanish for {who}, while small ones arrive",
    when=when,
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
)
