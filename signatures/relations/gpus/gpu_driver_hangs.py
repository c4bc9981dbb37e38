"""The GPU driver does not answer.

A program that only asks for the state of the GPUs stays in uninterruptible sleep in the kernel: a
GPU's firmware does not answer (Xid 119, 120), a GPU is lost, or a reset is under way. Every CUDA
call on the host may hang the same way.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import DriverSilence
from whyhang.analyzer.queries import Case, Hit, Signature, cite
from whyhang.analyzer.queries.machines.gpus import SHOWN


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for all hosts where a tool that asks the driver did not come back.

    The ranks there are where it shows.
    """
    silent = case.job.of(DriverSilence)
    if not silent:
        return
    hosts = {fact.who.host for fact in silent}
    members = tuple(m.id for m in case.job.members if m.host in hosts)
    shown = ", ".join(sorted(host for host in hosts if host))
    yield Hit(
        members=members if len(members) < len(case.job.members) else (),
        affected=queries.waiters_for(case),
        names_culprit=False,
        evidence=tuple(cite(fact.source, fact.says) for fact in silent[:SHOWN]),
        fields={"hosts": shown or "the host", "says": silent[0].says},
    )


SIGNATURE = Signature(
    id="gpu-driver-hangs",
    category="gpu-hardware-xid",
    level="machine",
    title="The GPU driver of {hosts} does not answer",
    when=when,
    means="{says}. A sick GPU blocks the driver, and with it every CUDA call on {hosts}.",
    confidence="likely",
    remedies=(
        "Take {hosts} out of the job and restart from the last checkpoint.",
        "Reboot {hosts}; processes in that sleep cannot be ended.",
    ),
    next_steps=(
        "dmesg -T | grep -E 'Xid|NVRM'  # on {hosts}",
        "cat /proc/$(pgrep -n nvidia-smi)/stack  # as root, on {hosts}",
    ),
    links=("https://docs.nvidia.com/deploy/xid-errors/index.html",),
)
