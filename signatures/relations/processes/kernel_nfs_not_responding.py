"""The kernel waits for an NFS server.

Hard mounts (the default) wait for ever: every process that touches the mount blocks in the
kernel and ignores signals. "still trying" means just that; "timed out" is what soft mounts say.
A later "OK" line for the server means that it came back.

Ranks that read data or write checkpoints there stop, and the others wait for them.
"""

from collections.abc import Iterable

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine
from whyhang.analyzer.queries import Case, Hit, Signature
from whyhang.analyzer.rank_state.from_logs.ends import LOST_PEER

NOT_RESPONDING = r"nfs: server (?P<server>\S+) not responding"
ANSWERS = r"nfs: server (?P<server>\S+) OK"


def when(case: Case) -> Iterable[Hit]:
    return () if _is_over(case) else queries.logged(case, NOT_RESPONDING)


SIGNATURE = Signature(
    id="kernel-nfs-not-responding",
    category="storage-io-blocked",
    level="machine",
    title="The NFS server {server} does not answer",
    when=when,
    patterns=(NOT_RESPONDING,),
    vetoes=(ANSWERS,),
    means="File access to this server blocks, so the ranks that need it stand still.",
    confidence="likely",
    remedies=(
        "Restore the server or the network to it; blocked processes then go on by themselves.",
        "If it stays away: lazy unmount (umount -l) and restart the job elsewhere.",
    ),
    next_steps=(
        "dmesg -T | grep 'nfs: server'  # did an OK follow?",
        "timeout 5 stat MOUNT; nfsstat -m; ps -eo pid,stat,wchan:30,cmd | grep ' D'",
    ),
    matches=(
        "[ 8811.7] nfs: server filer01 not responding, still trying",
        "Jul  1 13:06:53 node7 kernel: nfs: server 10.0.9.1 not responding, timed out",
    ),
    misses=("[ 8899.1] nfs: server filer01 OK",),
)


def _is_over(case: Case) -> bool:
    """Return whether every line of trouble is followed by one that its server answers.

    A job that was seen to stop may have been stopped by it all the same, so nothing is over where
    anything else speaks of an end.
    """
    job = case.job
    if job.exits or job.tracks or any(m.dumps or m.processes for m in job.members):
        return False
    if any(line.raised is not None or LOST_PEER.search(line.text) for line in job.lines):
        return False
    trouble, ends = job.lines_with((NOT_RESPONDING,)), job.lines_with((ANSWERS,))
    return bool(trouble) and not any(_lasts(line, trouble, ends) for line in trouble)


def _lasts(line: LogLine, trouble: list[LogLine], ends: list[LogLine]) -> bool:
    """Return whether nothing after a line, nor after those folded into others, ends it."""

    def same(other: LogLine) -> bool:
        return other.source.file == line.source.file and (
            other.fields.get("server") == line.fields.get("server")
        )

    here = [other for other in trouble if other.source.file == line.source.file]
    begun = [other.source.line or 0 for other in here if other.count > 1 or same(other)]
    over = [end.source.line or 0 for end in ends if same(end)]
    return not over or max(over) < max(begun)
