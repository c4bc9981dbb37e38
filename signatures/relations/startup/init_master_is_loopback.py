"""The master's name or address is a loopback address, so that every host finds itself there.

Debian and Ubuntu give the host's own name 127.0.1.1 in /etc/hosts. ``MASTER_ADDR=$(hostname -i)``
then is 127.0.1.1 everywhere: right on the master, and on every other host a place where nobody
listens. ``localhost`` for a job on several hosts is the same mistake.
"""

from whyhang.analyzer.match import Kind, Signature, resolves_apart

SIGNATURE = Signature(
    id="init-master-is-loopback",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    level="setup",
    title="{host}{as}, where the store should be, is every host itself, and {who} {is} on another",
    when=resolves_apart(loopback=True),
    means=(
        "MASTER_ADDR is {host}{as}, which means the own host to whoever asks. On the host of "
        "{who}, which is not that of rank 0, no store is there: {says}."
    ),
    confidence="certain",
    remedies=(
        (
            "Give an address of rank 0's host that the others reach: MASTER_ADDR=$(hostname -I | "
            "awk '{{print $1}}'), or its name where /etc/hosts does not turn that into 127.0.1.1."
        ),
    ),
    next_steps=("getent ahosts {host}  # on the host of rank 0 and of {who}",),
    explains=(
        "init-missing-rank",
        "init-not-connected",
        "init-master-refuses",
        "init-master-no-answer",
        "init-master-name-differs",
        "missing-rank-in-collective",
        "stuck-together",
    ),
)
