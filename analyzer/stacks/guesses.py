"""What a thread may wait for where no frame tells: the kernel's word and the line of source.

A call into C leaves no frame: ``time.sleep``, ``lock.acquire``, ``work.wait()`` and
``input()`` all look like the user's line itself. The kernel names the function a thread sleeps
in (``/proc/PID/wchan``), and the text of the line often names the call.
"""

from __future__ import annotations

import functools
import re

from whyhang.analyzer.facts import Record
from whyhang.analyzer.stacks.kinds import FILE_LOCK, PIPE, Scope, WaitKind, scope_of


class Guess(Record):
    """A likely wait. ``firm``: the kernel's word leaves no other reading of the line."""

    kind: WaitKind
    says: str
    scope: Scope
    op: str | None = None
    mechanism: str | None = None
    firm: bool = False


class _Kernel(Record):
    names: tuple[str, ...]
    kind: WaitKind
    says: str
    scope: Scope
    op: str | None = None
    firm: bool = False


_LOCAL, _MAYBE = Scope.LOCAL, Scope.MAYBE

# Kernel functions by prefix, first match wins. Names moved over the years: 4.x to 6.x are here.
_WCHAN: tuple[_Kernel, ...] = (
    _Kernel(
        names=("hrtimer_nanosleep", "do_nanosleep", "common_nsleep"),
        kind=WaitKind.SLEEP,
        says="sleeping",
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=("do_wait", "kernel_wait4", "do_wait4", "wait_consider_task", "kernel_waitid"),
        kind=WaitKind.SUBPROCESS,
        says="waiting for a child process",
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=(
            "flock_lock_inode_wait",
            "locks_lock_inode_wait",
            "posix_lock_inode_wait",
            "fcntl_setlk",
            "do_lock_file_wait",
            "nlmclnt_",
            "nfs4_proc_lock",
        ),
        kind=WaitKind.LOCK,
        says="waiting for a file lock",
        op=FILE_LOCK,
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=("n_tty_read", "tty_read"),
        kind=WaitKind.INPUT,
        says="waiting for input from the terminal",
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=(
            "nfs",
            "rpc_wait",
            "io_schedule",
            "folio_wait",
            "wait_on_page",
            "__wait_on_page",
            "wait_on_buffer",
            "__wait_on_buffer",
            "bit_wait_io",
            "jbd2",
            "xfs_",
            "ext4_",
            "btrfs_",
            "balance_dirty_pages",
            "wbt_wait",
            "rq_qos_wait",
            "blk_",
            "submit_bio",
            "fuse_",
            "request_wait_answer",
            "ceph_",
            "cl_sync_io",
            "ll_",
            "ldlm_",
            "ptlrpc_",
            "osc_",
            "cxi",
            "beegfs",
            "dio_",
            "iomap_dio",
            "__iomap_dio",
            "filemap_",
            "sync_inodes",
            "writeback_",
            "p9_client",
            "cifs_",
            "smb2_",
            "autofs",
            "dlm_",
            "gfs2_",
            "weka",
            "vfs_fsync",
        ),
        kind=WaitKind.FILE,
        says="in file I/O",
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=("nvidia", "nv_", "nv0", "uvm_", "os_acquire", "rm_", "amdgpu", "kfd_", "ttm_"),
        kind=WaitKind.CUDA_SYNC,
        says="in the GPU driver",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("ib_uverbs", "mlx5", "mlx4", "rdma_", "efa_"),
        kind=WaitKind.NETWORK,
        says="in the RDMA driver",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("futex", "__futex", "do_futex"),
        kind=WaitKind.POLL,
        says="waiting in native code (futex)",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("pipe_read", "anon_pipe_read", "fifo_pipe_read", "pipe_wait"),
        kind=WaitKind.POLL,
        says="reading from a pipe",
        op=PIPE,
        scope=_LOCAL,
    ),
    _Kernel(
        names=("wait_for_partner",),
        kind=WaitKind.FILE,
        says="opening a named pipe whose other end nobody has open",
        op=PIPE,
        scope=_LOCAL,
        firm=True,
    ),
    _Kernel(
        names=("pipe_write", "anon_pipe_write", "fifo_pipe_write"),
        kind=WaitKind.POLL,
        says="writing to a full pipe",
        op=PIPE,
        scope=_LOCAL,
    ),
    _Kernel(
        names=("unix_stream", "unix_wait", "unix_dgram", "__skb_wait_for_more"),
        kind=WaitKind.POLL,
        says="waiting on a local socket",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("inet_", "tcp_", "sk_wait", "sk_stream", "__sk_", "lock_sock", "udp_", "inet6_"),
        kind=WaitKind.NETWORK,
        says="waiting on a network socket",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("wait_woken",),
        kind=WaitKind.NETWORK,
        says="waiting on a network socket or a terminal",
        scope=_MAYBE,
    ),
    _Kernel(
        names=(
            "poll_schedule",
            "do_sys_poll",
            "do_poll",
            "do_select",
            "core_sys_select",
            "ep_poll",
            "do_epoll",
            "eventfd_read",
        ),
        kind=WaitKind.POLL,
        says="waiting for a file descriptor or sleeping",
        scope=_MAYBE,
    ),
    _Kernel(
        names=("do_sigtimedwait", "sigsuspend", "do_pause", "signalfd", "__do_sys_pause"),
        kind=WaitKind.POLL,
        says="waiting for a signal",
        scope=_LOCAL,
    ),
)


class _Line(Record):
    pattern: str
    kind: WaitKind
    says: str
    scope: Scope | None = None
    spins: bool = False  # it may burn CPU while it waits
    op: str | None = None


_MPI_CALL = (
    r"\b(?:comm|\w*_comm|comm_\w+|COMM_WORLD|MPI)\w*\s*\.\s*"
    r"(Barrier|Bcast|Allreduce|Reduce|Gatherv?|Scatterv?|Allgatherv?|Alltoall[vw]?|Scan|Exscan"
    r"|Send|Ssend|Recv|Sendrecv|Probe|Split|Dup|Create|Win_fence"
    r"|barrier|bcast|allreduce|allgather|alltoall)\s*\("
)

# Calls into C that wait, by the text of the line, first match wins.
_LINES: tuple[_Line, ...] = (
    _Line(pattern=r"\bbreakpoint\(\)|\bset_trace\(", kind=WaitKind.DEBUGGER, says="in a debugger"),
    _Line(
        pattern=r"(?<![\w.])input\(|\bsys\.stdin\b|\bgetpass\(",
        kind=WaitKind.INPUT,
        says="waiting for input",
    ),
    _Line(
        pattern=r"\btime\.sleep\(|(?<![\w.])sleep\(",
        kind=WaitKind.SLEEP,
        says="sleeping",
    ),
    _Line(
        pattern=r"\b(?:flock|lockf)\(",
        kind=WaitKind.LOCK,
        says="waiting for a file lock",
        op=FILE_LOCK,
    ),
    _Line(
        pattern=r"\.acquire\(|\bwith\b[^#]*[lL]ock\b|\bwith\b[^#]*_(?:mutex|sem|rlock)\b",
        kind=WaitKind.LOCK,
        says="waiting for a lock",
    ),
    _Line(pattern=_MPI_CALL, kind=WaitKind.MPI, says="in an MPI call", spins=True),
    _Line(
        pattern=r"\bstore\w*\.(?:get|wait|add|multi_get|compare_set|barrier)\(",
        kind=WaitKind.STORE,
        says="waiting for a key of the store",
    ),
    _Line(
        pattern=r"\b\w*(?:send|recv|p2p)\w*\.wait\(|\bd?ist\w*\.(?:isend|irecv)\(.*\.wait\(",
        kind=WaitKind.P2P,
        says="in the wait() of a send or receive",
        scope=_MAYBE,
        spins=True,
    ),
    _Line(
        pattern=r"\.(?:item|tolist|cpu|numpy|synchronize|nonzero)\(|\.to\(\s*['\"]cpu",
        kind=WaitKind.CUDA_SYNC,
        says="waiting for the GPU",
        spins=True,
    ),
    _Line(
        pattern=r"\.wait(?:_tensor)?\(",
        kind=WaitKind.COLLECTIVE,
        says="in the wait() of an asynchronous operation",
        scope=_MAYBE,
        spins=True,
    ),
    _Line(
        pattern=r"\bgetaddrinfo\(|\bgethostby\w+\(",
        kind=WaitKind.NETWORK,
        says="resolving a host name",
    ),
    _Line(
        pattern=r"\bos\.wait(?:pid)?\(|\bos\.system\(",
        kind=WaitKind.SUBPROCESS,
        says="waiting for a child process",
    ),
    _Line(
        pattern=r"\.(?:recv|recv_into|recvfrom|accept|connect|sendall)\(",
        kind=WaitKind.NETWORK,
        says="waiting on a socket",
    ),
    _Line(
        pattern=r"\bselect\.(?:select|poll)\(|\bpoller?\.poll\(",
        kind=WaitKind.POLL,
        says="waiting for a file descriptor",
    ),
    _Line(
        pattern=r"\bopen\(|\bos\.(?:read|write|open|fsync|stat|listdir|scandir)\(|\.read(?:line|lines|into|all)?\("
        r"|\.write\(|\.flush\(|\bfromfile\(|\bmemmap\(",
        kind=WaitKind.FILE,
        says="in file I/O",
    ),
)


@functools.lru_cache(maxsize=1024)
def from_kernel(wchan: str | None) -> Guess | None:
    """Read the kernel function that a thread sleeps in; None where it says nothing."""
    name = (wchan or "").strip().lstrip("_") if wchan not in {None, "", "0"} else ""
    if not name:
        return None
    for entry in _WCHAN:
        if name.startswith(tuple(part.lstrip("_") for part in entry.names)):
            return Guess(
                kind=entry.kind,
                says=entry.says,
                scope=entry.scope,
                op=entry.op,
                mechanism=wchan,
                firm=entry.firm,
            )
    return None


@functools.lru_cache(maxsize=8192)
def from_line(text: str, *, running: bool = False) -> Guess | None:
    """Read a line of source; a ``running`` thread can only be in a wait that burns CPU."""
    code = text.partition("  #")[0].strip()
    for entry in _LINES:
        match = re.search(entry.pattern, code)
        if match is None or (running and not entry.spins):
            continue
        op = match.group(1).lower() if entry.kind is WaitKind.MPI else entry.op
        says = f"in MPI {op}" if entry.kind is WaitKind.MPI else entry.says
        scope = entry.scope or scope_of(entry.kind)
        # A line is a hint: what it says of other ranks is only "perhaps".
        scope = Scope.MAYBE if scope is Scope.RANKS else scope
        return Guess(kind=entry.kind, says=says, scope=scope, op=op)
    return None
