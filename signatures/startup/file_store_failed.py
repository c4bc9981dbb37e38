"""Start-up through a shared file (file:// or FileStore) failed.

All ranks append to one file under a lock. It must be the same file for all (a file system
shared between nodes, with working locks), must not exist from an earlier run, and its folder
must exist. A missing folder does not even raise: the store retries until its timeout.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="file-store-failed",
    category="init-file-store",
    kind=Kind.CAUSE,
    title="The shared file for start-up does not work",
    when=log(
        (
            r"file:// rendezvous: (?:path missing|rank parameter missing|world size parameter "
            r"missing)"
        ),
        (
            r"DistStoreError: (?:Is a directory|Not a directory|Permission denied|No such file "
            r"or directory|No locks available|Read-only file system|Wait timeout)"
        ),
        (
            r"(?:RuntimeError|SystemError|std::system_error): open\(\S+\): (?:Permission "
            r"denied|No such file or directory|Is a directory|Read-only file system)"
        ),
        r"RuntimeError: Wait timeout",
    ),
    means=(
        "The ranks meet through a shared file, and it cannot be opened or locked, or the others "
        "never wrote to it: another path on each node, no rights, or a file system without locks."
    ),
    confidence=0.85,
    remedies=(
        (
            "Use a path on a shared file system, in an existing folder, new for every run; "
            "remove the file of the last run."
        ),
        "On NFS, check that locking works, or use tcp:// or env:// instead.",
    ),
    next_steps=(
        "ls -la PATH  # on every node",
        "flock -n PATH true  # on the shared file system",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#shared-file-system-initialization",),
    matches=(
        "ValueError: Error initializing torch.distributed using file:// rendezvous: path missing",
        "torch.distributed.DistStoreError: Is a directory",
        "torch.distributed.DistStoreError: Permission denied",
        "RuntimeError: open(/nfs/job/init): Permission denied",
        "RuntimeError: Wait timeout",
    ),
    misses=(
        "PermissionError: [Errno 13] Permission denied: '/data/out'",
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/1"
        ),
    ),
)
