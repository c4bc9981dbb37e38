"""Native frames (C and C++): CPython and the C library."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule

CPYTHON: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.GIL,
        functions=("take_gil",),
        native=True,
        says="waiting for the GIL",
        verified="by name, not seen",
    ),
    *(
        WaitRule(
            kind=kind,
            functions=functions,
            native=True,
            layer=Layer.MECHANISM,
            says=says,
            op=op,
            scope=scope,
            verified="in part run",
        )
        for kind, functions, says, op, scope in (
            (WaitKind.SLEEP, ("time_sleep", "pysleep"), "sleeping", None, None),
            (
                WaitKind.LOCK,
                (
                    "lock_PyThread_acquire_lock",
                    "lock_acquire",
                    "rlock_acquire",
                    "lock___enter__",
                    "rlock___enter__",
                    "acquire_timed",
                    "PyMutex_LockTimed",
                    "semlock_acquire",
                    "PyThread_acquire_lock_timed",
                    "_multiprocessing_SemLock_acquire*",
                ),
                "waiting for a lock",
                None,
                None,
            ),
            (
                WaitKind.QUEUE,
                ("queue_SimpleQueue_get*", "simplequeue_get"),
                "waiting for an item of a queue",
                None,
                None,
            ),
            (
                WaitKind.INPUT,
                (
                    "builtin_input",
                    "PyOS_Readline",
                    "PyOS_StdioReadline",
                    "my_fgets",
                    "call_readline",
                    "readline_until_enter_or_signal",
                ),
                "waiting for input",
                None,
                None,
            ),
            (
                WaitKind.NETWORK,
                ("sock_call_ex", "sock_recv*", "sock_accept", "sock_connect", "internal_connect"),
                "waiting on a socket",
                None,
                None,
            ),
            (
                WaitKind.NETWORK,
                ("getaddrinfo", "gethostbyname_r", "res_nsend", "res_nsearch"),
                "resolving a host name",
                None,
                None,
            ),
            (
                WaitKind.LOCK,
                ("fcntl_flock*", "fcntl_lockf*", "flock"),
                "waiting for a file lock",
                "file-lock",
                None,
            ),
            (
                WaitKind.SUBPROCESS,
                ("os_waitpid*", "os_wait*", "waitpid", "wait4", "waitid", "os_system*"),
                "waiting for a child process",
                None,
                None,
            ),
            (
                WaitKind.FILE,
                (
                    "os_open*",
                    "os_fsync*",
                    "fsync",
                    "fdatasync",
                    "openat*",
                    "open64",
                    "fopen*",
                    "os_stat*",
                    "os_listdir*",
                    "os_scandir*",
                    "fstatat64",
                    "statx",
                    "pread64",
                    "pwrite64",
                    "getdents64",
                ),
                "in file I/O",
                None,
                None,
            ),
            (
                WaitKind.FILE,
                ("Py_write", "Py_read", "os_read*", "os_write*", "_io_FileIO_read*", "readall"),
                "reading or writing a file, pipe or terminal",
                None,
                Scope.LOCAL,
            ),
            (
                WaitKind.FILE,
                ("_io_FileIO_write*", "bufferedreader_raw_read", "bufferedwriter_raw_write"),
                "reading or writing a file, pipe or terminal",
                None,
                Scope.LOCAL,
            ),
        )
    ),
)

LIBC: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=kind,
            functions=functions,
            native=True,
            layer=Layer.MECHANISM,
            says=says,
            scope=scope,
            verified="in part run",
        )
        for kind, functions, says, scope in (
            (
                WaitKind.SLEEP,
                ("nanosleep", "clock_nanosleep", "usleep"),
                "sleeping",
                Scope.MAYBE,
            ),
            (
                WaitKind.POLL,
                ("poll", "ppoll", "select", "pselect", "epoll_wait", "epoll_pwait", "pause"),
                "waiting for a file descriptor",
                Scope.MAYBE,
            ),
            (
                WaitKind.POLL,
                ("read", "write", "recv", "recvfrom", "recvmsg", "send", "sendmsg", "accept*"),
                "waiting on a pipe, socket or file",
                Scope.MAYBE,
            ),
            (
                WaitKind.POLL,
                (
                    "futex_wait*",
                    "futex_abstimed_wait*",
                    "do_futex_wait",
                    "pthread_cond_wait",
                    "pthread_cond_timedwait",
                    "pthread_cond_clockwait",
                    "std::condition_variable::wait",
                    "std::__condvar::wait",
                    "pthread_join",
                    "pthread_clockjoin_ex",
                    "sem_wait",
                    "sem_timedwait",
                    "sem_clockwait",
                    "sem_wait_slow64",
                ),
                "waiting in native code",
                Scope.MAYBE,
            ),
            (
                WaitKind.LOCK,
                ("pthread_mutex_lock", "lll_lock_wait", "pthread_rwlock_rdlock", "gomp_*_wait"),
                "waiting for a lock in native code",
                Scope.LOCAL,
            ),
            (
                WaitKind.POLL,
                ("gomp_team_barrier_wait*", "gomp_barrier_wait*", "kmp_*barrier*", "__kmp_*"),
                "waiting for OpenMP threads",
                Scope.LOCAL,
            ),
            (
                WaitKind.POLL,
                ("sigwait", "sigtimedwait", "sigsuspend"),
                "waiting for a signal",
                None,
            ),
        )
    ),
)

SYSTEM: tuple[WaitRule, ...] = (*CPYTHON, *LIBC)
