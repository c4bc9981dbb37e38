"""The process may not open more files, and NCCL's sockets are files.

Every channel to every peer takes descriptors; large worlds, many communicators, and DataLoader
workers that share tensors by file descriptor use up a limit of 1024 quickly.

This rank cannot accept connections, so its peers hang in set-up. Not to be confused with
"Accept failed Resource temporarily unavailable" at tear-down, which is harmless.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-too-many-open-files",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="{who} ran out of file descriptors in NCCL",
    when=log(
        (
            r"(?:Accept failed|Call to (?:socket|accept|open)\w* failed|exceeded error retry "
            r"count after \d+ attempts,).*Too many open files"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "This rank hit its limit of open files, so it could not take part in connection set-up "
        "and its peers wait."
    ),
    confidence=0.95,
    remedies=(
        (
            "Raise the limit: ulimit -n 65536 (LimitNOFILE in systemd, nofile in limits.conf, "
            "--ulimit for docker) and restart."
        ),
        (
            "Use torch.multiprocessing.set_sharing_strategy('file_system') if DataLoader "
            "workers hold the descriptors."
        ),
    ),
    next_steps=("grep 'open files' /proc/PID/limits; ls /proc/PID/fd | wc -l",),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:390 NCCL WARN socketTryAccept: Accept failed: Too "
            "many open files"
        ),
        (
            "node3:99:140 [1] misc/socket.cc:388 NCCL WARN socketTryAccept: exceeded error "
            "retry count after 35 attempts, Too many open files"
        ),
        (
            "node3:99:140 [1] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Too many "
            "open files"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] proxy.cc:1458 NCCL WARN [Service thread] Accept failed Resource "
            "temporarily unavailable"
        ),
    ),
    outranks=("launcher-exit-code",),
)
