"""A host of several finds its own loopback address under its name.

Debian and Ubuntu give the host's own name 127.0.1.1 in /etc/hosts, and ``hostname -i`` says so. A
rank that tells the others its name's address, or a script that asks for it, sends them to
themselves: right on that host, and on every other one a place where nobody listens.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import NetworkPort, SignOfLife
from whyhang.analyzer.queries import Case, Hit, Signature, cite


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for hosts whose name is loopback alone, in a job that does not get on."""
    asked = [port for port in case.job.of(NetworkPort) if not port.name and port.addresses]
    inward = [port for port in asked if all(map(queries.is_loopback, port.addresses))]
    hosts = {port.who.host for port in asked if port.who.host} | queries.hosts_of_job(case)
    if not inward or len(hosts) < 2 or case.job.of(SignOfLife):
        return
    names = list(dict.fromkeys(port.who.host or "a host" for port in inward))
    yield Hit(
        affected=tuple(member.id for member in case.job.members),
        names_culprit=False,
        evidence=tuple(cite(port.source, port.quote) for port in inward[:4]),
        fields={"hosts": ", ".join(names[:4]), "address": inward[0].addresses[0]},
    )


SIGNATURE = Signature(
    id="host-name-is-loopback",
    category="init-hostname-resolution",
    level="setup",
    title="The name of {hosts} is {address} there, which other hosts look for at home",
    when=when,
    means="Whoever is given the address of that name connects to itself, and finds nobody.",
    confidence="possible",
    remedies=(
        "Give an address that the others reach: MASTER_ADDR=$(hostname -I | awk '{{print $1}}').",
        "Remove the line 127.0.1.1 from /etc/hosts.",
    ),
    next_steps=("getent ahosts $(hostname)  # on every host",),
)
