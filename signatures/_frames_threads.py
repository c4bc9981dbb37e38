"""Frames of Python and common packages: threads, processes, people, imports."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule, names

_EXIT = "waiting for its threads at exit"
_MP = "waiting for another process (multiprocessing)"

THREADS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.LOCK,
        functions=names("wait wait_for _wait"),
        file="threading.py",
        layer=Layer.MECHANISM,
        says="waiting for an event or condition of another thread",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=names("acquire _acquire_restore"),
        file="threading.py",
        layer=Layer.MECHANISM,
        says="waiting for a semaphore or lock of another thread",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.JOIN,
        functions=names("join _wait_for_tstate_lock _join"),
        file="threading.py",
        says="waiting for another thread to end",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.JOIN,
        functions=("_shutdown",),
        file="threading.py",
        op="exit",
        says=_EXIT,
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.JOIN,
        functions=names("_python_exit shutdown"),
        file="concurrent/futures/thread.py",
        says="waiting for the threads of a pool to end",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=names("result exception wait as_completed result_iterator"),
        file="concurrent/futures/_base.py",
        says="waiting for a future",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_worker",),
        file="concurrent/futures/thread.py",
        says="idle in a thread pool",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=names("get join"),
        file="queue.py",
        says="waiting for an item of a queue",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("put",),
        file="queue.py",
        says="waiting for room in a full queue",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=names("run_forever _run_once run_until_complete"),
        file="asyncio/base_events.py",
        says="in its event loop",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("run",),
        file="asyncio/runners.py",
        says="in its event loop",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("serve_forever",),
        file="socketserver.py",
        op="requests",
        says="waiting for requests",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("run",),
        file="tqdm/_monitor.py",
        says="idle (tqdm's monitor)",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.POLL,
        functions=names("select _select"),
        file="selectors.py",
        layer=Layer.MECHANISM,
        says="waiting for a file descriptor",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        # A lock that was held when the process forked is never released in the child.
        kind=WaitKind.LOCK,
        functions=names("acquire _acquireLock handle"),  # 3.13 locks in handle itself
        file="logging/__init__.py",
        says="waiting for the lock of a log handler",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=names("acquire __enter__"),
        file="tqdm/std.py",
        says="waiting for tqdm's lock",
        verified="run",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("acquire",),
        file="<frozen importlib._bootstrap>",
        says="waiting for the import lock of a module",
        verified="run",
    ),
)

PROCESSES: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("get",),
        file="multiprocessing/queues.py",
        says="waiting for an item of a multiprocessing queue",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=names("put join_thread _finalize_join"),
        file="multiprocessing/queues.py",
        says="waiting for room in a multiprocessing queue",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_feed",),
        file="multiprocessing/queues.py",
        says="feeding a queue",
        verified="run Python 3.11; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=names("recv recv_bytes recv_bytes_into _recv _recv_bytes poll wait"),
        file="multiprocessing/connection.py",
        says=_MP,
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=names("accept Client answer_challenge deliver_challenge"),
        file="multiprocessing/connection.py",
        says=_MP,
        verified="run Python 3.11; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.POLL,
        functions=names("send send_bytes _send _send_bytes"),
        file="multiprocessing/connection.py",
        says="writing to a full pipe that another process does not read",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=names("_callmethod connect"),
        file="multiprocessing/managers.py",
        says="waiting for a multiprocessing manager",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        # The server stands in Event.wait, which no thread of it will set before its end.
        kind=WaitKind.IDLE,
        functions=names("serve_forever serve_client accepter"),
        file="multiprocessing/managers.py",
        says="idle (a multiprocessing manager)",
        verified="run Python 3.11; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=names("__enter__ wait wait_for"),
        file="multiprocessing/synchronize.py",
        layer=Layer.MECHANISM,
        says="waiting for a lock that it shares with other processes",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=names("get wait next join"),
        file="multiprocessing/pool.py",
        op="process-pool",
        says="waiting for a result of its process pool",
        scope=Scope.LOCAL,
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("worker",),
        file="multiprocessing/pool.py",
        says="idle in a process pool",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_process_worker",),
        file="concurrent/futures/process.py",
        says="idle in a process pool",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=names("retrieve _retrieve"),
        file="joblib/parallel.py",
        says="waiting for joblib's workers",
        scope=Scope.LOCAL,
        verified="run",
    ),
    *(
        WaitRule(
            kind=WaitKind.IDLE,
            functions=("main",),
            file=file,
            says="idle (a helper process of multiprocessing)",
            verified="in part run Python 3.11; source Python 3.8-3.13",
        )
        for file in ("multiprocessing/resource_tracker.py", "multiprocessing/forkserver.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.SUBPROCESS,
            functions=names("join wait poll"),
            file=file,
            says="waiting for a child process to end",
            verified="in part run Python 3.8-3.13; source Python 3.8-3.13",
        )
        for file in (
            "multiprocessing/process.py",
            "multiprocessing/popen_fork.py",
            "multiprocessing/popen_forkserver.py",
        )
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=names("wait _wait _try_wait communicate _communicate"),
        file="subprocess.py",
        says="waiting for a child process",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=names("__init__ _execute_child"),
        file="subprocess.py",
        says="starting a child process",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=names("_exit_function _run_finalizers"),
        file="multiprocessing/util.py",
        op="exit",
        says="ending its child processes at exit",
        verified="run Python 3.11; source Python 3.8-3.13",
    ),
)

PEOPLE: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.DEBUGGER,
            functions=functions,
            file=file,
            says="at a breakpoint, in the debugger",
            verified="in part run Python 3.8-3.13; source Python 3.8-3.13",
        )
        for functions, file in (
            (("interaction", "_cmdloop", "cmdloop", "user_line", "user_call", "default"), "pdb.py"),
            (("set_trace", "post_mortem", "user_return", "user_exception"), "pdb.py"),
            (("trace_dispatch", "dispatch_line", "dispatch_call", "dispatch_return"), "bdb.py"),
            (("set_trace", "dispatch_exception", "dispatch_opcode"), "bdb.py"),
            (("cmdloop",), "cmd.py"),
            (("*",), "IPython/core/debugger.py"),
            (("*",), "IPython/terminal/debugger.py"),
            (("*",), "ipdb/"),
            (("*",), "pudb/"),
            (("*",), "remote_pdb.py"),
            (("wait_for_client", "breakpoint"), "debugpy/public_api.py"),
            (("wait_for_client", "breakpoint"), "debugpy/server/api.py"),
            (("do_wait_suspend", "_do_wait_suspend", "wait_for_attach"), "pydevd.py"),
            (("do_wait_suspend", "wait_for_attach"), "_pydevd_bundle/pydevd_frame.py"),
            (("interaction",), "torch/distributed/__init__.py"),
        )
    ),
    WaitRule(
        kind=WaitKind.DEBUGGER,
        functions=names("interact raw_input"),
        file="code.py",
        says="in an interactive console",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=names("unix_getpass _raw_input fallback_getpass getpass"),
        file="getpass.py",
        says="waiting for a password",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=names("prompt confirm visible_prompt_func prompt_func"),
        file="click/termui.py",
        says="waiting for input",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=names("prompt run"),
        file="prompt_toolkit/shortcuts/prompt.py",
        says="waiting for input",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=names("prompt_choices prompt_api_key _prompt_choice"),
        file="wandb/sdk/lib/apikey.py",
        says="waiting for input (wandb asks for a key)",
        verified="by name, not seen",
    ),
)

IMPORTS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.IMPORT,
        functions=("_find_and_load",),
        file="<frozen importlib._bootstrap>",
        layer=Layer.CONTEXT,
        says="importing a module",
        verified="run",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names(
            "get_data path_stats _path_stat _path_isfile _path_isdir _fill_cache find_spec "
            "create_module"
        ),
        file="<frozen importlib._bootstrap_external>",
        says="reading the file of a module",
        verified="source",
    ),
)

WAITING: tuple[WaitRule, ...] = (*THREADS, *PROCESSES, *PEOPLE, *IMPORTS)
