"""The system call that a thread waits in, by the number that /proc/PID/syscall gives (proc(5))."""

import os

# arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h
_X86_64 = {
    0: "read", 1: "write", 3: "close", 7: "poll", 16: "ioctl", 17: "pread64", 18: "pwrite64",
    19: "readv", 20: "writev", 23: "select", 24: "sched_yield", 34: "pause", 35: "nanosleep",
    40: "sendfile", 42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 46: "sendmsg",
    47: "recvmsg", 56: "clone", 58: "vfork", 61: "wait4", 72: "fcntl", 73: "flock", 74: "fsync",
    75: "fdatasync", 78: "getdents", 202: "futex", 208: "io_getevents", 217: "getdents64",
    230: "clock_nanosleep", 232: "epoll_wait", 247: "waitid", 257: "openat", 262: "newfstatat",
    270: "pselect6", 271: "ppoll", 277: "sync_file_range", 281: "epoll_pwait", 288: "accept4",
    295: "preadv", 326: "copy_file_range", 332: "statx", 426: "io_uring_enter", 435: "clone3",
    441: "epoll_pwait2",
}  # fmt: skip
_AARCH64 = {
    25: "fcntl", 29: "ioctl", 32: "flock", 56: "openat", 57: "close", 61: "getdents64",
    63: "read", 64: "write", 65: "readv", 66: "writev", 67: "pread64", 68: "pwrite64",
    69: "preadv", 71: "sendfile", 72: "pselect6", 73: "ppoll", 79: "newfstatat", 82: "fsync",
    83: "fdatasync", 95: "waitid", 98: "futex", 101: "nanosleep", 115: "clock_nanosleep",
    124: "sched_yield", 202: "accept", 203: "connect", 206: "sendto", 207: "recvfrom",
    211: "sendmsg", 212: "recvmsg", 220: "clone", 242: "accept4", 260: "wait4", 291: "statx",
    22: "epoll_pwait", 4: "io_getevents", 426: "io_uring_enter", 435: "clone3",
    441: "epoll_pwait2",
}  # fmt: skip

_TABLES = {"x86_64": _X86_64, "aarch64": _AARCH64, "arm64": _AARCH64}

_ON_DESCRIPTOR_NAMES = """
    read write close ioctl pread64 pwrite64 readv writev preadv connect accept accept4 sendto
    recvfrom sendmsg recvmsg fcntl flock fsync fdatasync getdents getdents64 sync_file_range
    sendfile
"""
_ON_DESCRIPTOR = frozenset(_ON_DESCRIPTOR_NAMES.split())


def parse_syscall(text: str, machine: str | None = None) -> tuple[str, int | None] | None:
    """Return the name of the call and the descriptor it works on, or None if in no known call.

    /proc/PID/syscall (proc(5)) holds the number, six arguments, stack pointer and program counter;
    "running" where the thread is on a processor, "-1" where it waits outside a call (a page
    fault). It may be read by whoever may attach to the process.
    """
    field = text.split()
    table = _TABLES.get(machine or os.uname().machine, {})
    try:
        name = table.get(int(field[0])) if field else None
    except ValueError:  # "running"
        return None
    if name is None:
        return None
    return name, int(field[1], 16) if name in _ON_DESCRIPTOR and len(field) > 1 else None
