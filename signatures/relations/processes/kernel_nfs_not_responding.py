"""The kernel waits for an NFS server.

Hard mounts (the default) wait for ever: every process that touches the mount blocks in the
kernel and ignores signals. "still trying" means just that; "timed out" is what soft mounts say.
A later "OK" line for the server means that it came back.

Ranks that read data or write checkpoints there stop, and the others wait for them.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.match.passed import passed
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-nfs-not-responding",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    level="machine",
    title="The NFS server {server} does not answer",
    when=log(
        r"nfs: server (?P<server>\S+) not responding",
    ),
    unless=passed(
        r"nfs: server (?P<server>\S+) not responding",
        r"nfs: server (?P<server>\S+) OK",
        key="server",
    ),
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
    explains=("launcher-exit-code",),
)
