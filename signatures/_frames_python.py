"""Frames of the standard library and of common packages that mean waiting."""

from __future__ import annotations

from whyhang.analyzer.waits import Layer, Scope, WaitKind, WaitRule

_HTTP = "in an HTTP request"
_HUB = "downloading from the Hugging Face Hub"
_STORAGE = "reading or writing remote storage"
_ARCHIVE = "reading or writing a compressed file"
_EXIT = "waiting for its threads at exit"
_MP = "waiting for another process (multiprocessing)"

THREADS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("wait", "wait_for", "_wait"),
        file="threading.py",
        layer=Layer.MECHANISM,
        says="waiting for an event or condition of another thread",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("acquire", "_acquire_restore"),
        file="threading.py",
        layer=Layer.MECHANISM,
        says="waiting for a semaphore or lock of another thread",
    ),
    WaitRule(
        kind=WaitKind.JOIN,
        functions=("join", "_wait_for_tstate_lock", "_join"),
        file="threading.py",
        says="waiting for another thread to end",
    ),
    WaitRule(kind=WaitKind.JOIN, functions=("_shutdown",), file="threading.py", says=_EXIT),
    WaitRule(
        kind=WaitKind.JOIN,
        functions=("_python_exit", "shutdown"),
        file="concurrent/futures/thread.py",
        says="waiting for the threads of a pool to end",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=("result", "exception", "wait", "as_completed", "result_iterator"),
        file="concurrent/futures/_base.py",
        says="waiting for a future",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_worker",),
        file="concurrent/futures/thread.py",
        says="idle in a thread pool",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("get", "join"),
        file="queue.py",
        says="waiting for an item of a queue",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("put",),
        file="queue.py",
        says="waiting for room in a full queue",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("run_forever", "_run_once", "run_until_complete"),
        file="asyncio/base_events.py",
        says="in its event loop",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("run",),
        file="asyncio/runners.py",
        says="in its event loop",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("serve_forever",),
        file="socketserver.py",
        says="waiting for requests",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("run",),
        file="tqdm/_monitor.py",
        says="idle (tqdm's monitor)",
    ),
    WaitRule(
        kind=WaitKind.POLL,
        functions=("select", "_select"),
        file="selectors.py",
        layer=Layer.MECHANISM,
        says="waiting for a file descriptor",
    ),
    WaitRule(
        # A lock that was held when the process forked is never released in the child.
        kind=WaitKind.LOCK,
        functions=("acquire", "_acquireLock"),
        file="logging/__init__.py",
        says="waiting for the lock of a log handler",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("acquire", "__enter__"),
        file="tqdm/std.py",
        says="waiting for tqdm's lock",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("acquire",),
        file="<frozen importlib._bootstrap>",
        says="waiting for the import lock of a module",
    ),
)

PROCESSES: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("get",),
        file="multiprocessing/queues.py",
        says="waiting for an item of a multiprocessing queue",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("put", "join_thread", "_finalize_join"),
        file="multiprocessing/queues.py",
        says="waiting for room in a multiprocessing queue",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_feed",),
        file="multiprocessing/queues.py",
        says="feeding a queue",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("recv", "recv_bytes", "recv_bytes_into", "_recv", "_recv_bytes", "poll", "wait"),
        file="multiprocessing/connection.py",
        says=_MP,
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("accept", "Client", "answer_challenge", "deliver_challenge"),
        file="multiprocessing/connection.py",
        says=_MP,
    ),
    WaitRule(
        kind=WaitKind.POLL,
        functions=("send", "send_bytes", "_send", "_send_bytes"),
        file="multiprocessing/connection.py",
        says="writing to a full pipe that another process does not read",
    ),
    WaitRule(
        kind=WaitKind.QUEUE,
        functions=("_callmethod", "connect"),
        file="multiprocessing/managers.py",
        says="waiting for a multiprocessing manager",
    ),
    WaitRule(
        kind=WaitKind.LOCK,
        functions=("__enter__", "wait", "wait_for"),
        file="multiprocessing/synchronize.py",
        layer=Layer.MECHANISM,
        says="waiting for a lock that it shares with other processes",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=("get", "wait", "next", "join"),
        file="multiprocessing/pool.py",
        says="waiting for a result of its process pool",
        scope=Scope.LOCAL,
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("worker",),
        file="multiprocessing/pool.py",
        says="idle in a process pool",
    ),
    WaitRule(
        kind=WaitKind.IDLE,
        functions=("_process_worker",),
        file="concurrent/futures/process.py",
        says="idle in a process pool",
    ),
    WaitRule(
        kind=WaitKind.FUTURE,
        functions=("retrieve", "_retrieve"),
        file="joblib/parallel.py",
        says="waiting for joblib's workers",
        scope=Scope.LOCAL,
    ),
    *(
        WaitRule(
            kind=WaitKind.IDLE,
            functions=("main",),
            file=file,
            says="idle (a helper process of multiprocessing)",
        )
        for file in ("multiprocessing/resource_tracker.py", "multiprocessing/forkserver.py")
    ),
    *(
        WaitRule(
            kind=WaitKind.SUBPROCESS,
            functions=("join", "wait", "poll"),
            file=file,
            says="waiting for a child process to end",
        )
        for file in (
            "multiprocessing/process.py",
            "multiprocessing/popen_fork.py",
            "multiprocessing/popen_forkserver.py",
        )
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=("wait", "_wait", "_try_wait", "communicate", "_communicate"),
        file="subprocess.py",
        says="waiting for a child process",
    ),
    WaitRule(
        kind=WaitKind.SUBPROCESS,
        functions=("__init__", "_execute_child"),
        file="subprocess.py",
        says="starting a child process",
    ),
    WaitRule(
        kind=WaitKind.TEARDOWN,
        functions=("_exit_function", "_run_finalizers"),
        file="multiprocessing/util.py",
        says="ending its child processes at exit",
    ),
)

PEOPLE: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.DEBUGGER,
            functions=functions,
            file=file,
            says="at a breakpoint, in the debugger",
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
        functions=("interact", "raw_input"),
        file="code.py",
        says="in an interactive console",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=("unix_getpass", "_raw_input", "fallback_getpass", "getpass"),
        file="getpass.py",
        says="waiting for a password",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=("prompt", "confirm", "visible_prompt_func", "prompt_func"),
        file="click/termui.py",
        says="waiting for input",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=("prompt", "run"),
        file="prompt_toolkit/shortcuts/prompt.py",
        says="waiting for input",
    ),
    WaitRule(
        kind=WaitKind.INPUT,
        functions=("prompt_choices", "prompt_api_key", "_prompt_choice"),
        file="wandb/sdk/lib/apikey.py",
        says="waiting for input (wandb asks for a key)",
    ),
)

IMPORTS: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.IMPORT,
        functions=("_find_and_load",),
        file="<frozen importlib._bootstrap>",
        layer=Layer.CONTEXT,
        says="importing a module",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=(
            "get_data",
            "path_stats",
            "_path_stat",
            "_path_isfile",
            "_path_isdir",
            "_fill_cache",
            "find_spec",
            "create_module",
        ),
        file="<frozen importlib._bootstrap_external>",
        says="reading the file of a module",
    ),
)

NETWORK: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("readinto", "accept", "create_connection", "sendfile"),
        file="socket.py",
        says="waiting on a socket",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("getaddrinfo", "getfqdn"),
        file="socket.py",
        says="resolving a host name",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("read", "recv", "recv_into", "send", "sendall", "do_handshake", "connect"),
        file="ssl.py",
        says="waiting on a TLS connection",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=(
            "getresponse",
            "begin",
            "_read_status",
            "read",
            "read1",
            "readinto",
            "readline",
            "_safe_read",
            "_read_chunked",
            "connect",
            "send",
            "request",
        ),
        file="http/client.py",
        says=_HTTP,
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("urlopen", "open", "urlretrieve", "do_open"),
        file="urllib/request.py",
        says=_HTTP,
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("getreply", "connect", "getresp", "getline"),
        file="smtplib.py",
        says="sending mail",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("getline", "getmultiline", "ntransfercmd", "retrbinary"),
        file="ftplib.py",
        says="in an FTP transfer",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("request", "single_request"),
        file="xmlrpc/client.py",
        says="in an XML-RPC call",
    ),
    *(
        WaitRule(kind=WaitKind.NETWORK, functions=("*",), file=file, says=says)
        for file, says in (
            ("requests/", _HTTP),
            ("urllib3/", _HTTP),
            ("httpx/", _HTTP),
            ("httpcore/", _HTTP),
            ("aiohttp/", _HTTP),
            ("httplib2/", _HTTP),
            ("botocore/", _STORAGE),
            ("boto3/", _STORAGE),
            ("aiobotocore/", _STORAGE),
            ("s3transfer/", _STORAGE),
            ("s3fs/", _STORAGE),
            ("gcsfs/", _STORAGE),
            ("google/cloud/storage/", _STORAGE),
            ("google/resumable_media/", _STORAGE),
            ("google/api_core/", "in a Google Cloud call"),
            ("azure/storage/", _STORAGE),
            ("s3torchconnector/", _STORAGE),
            ("smart_open/", _STORAGE),
            ("webdataset/gopen.py", _STORAGE),
            ("wandb/", "in a call to Weights & Biases"),
            ("mlflow/", "in a call to MLflow"),
            ("neptune/", "in a call to Neptune"),
            ("comet_ml/", "in a call to Comet"),
            ("clearml/", "in a call to ClearML"),
            ("swanlab/", "in a call to SwanLab"),
            ("huggingface_hub/", _HUB),
            ("hf_xet/", _HUB),
            ("grpc/", "in a gRPC call"),
            ("redis/", "in a call to Redis"),
            ("pymongo/", "in a call to MongoDB"),
            ("psycopg2/", "in a call to PostgreSQL"),
            ("pymysql/", "in a call to MySQL"),
            ("paramiko/", "in an SSH connection"),
            ("zmq/", "waiting for a ZeroMQ message"),
        )
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("sync", "sync_wrapper", "wrapper"),
        file="fsspec/asyn.py",
        says=_STORAGE,
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=("cached_file", "cached_files", "has_file", "get_checkpoint_shard_files"),
        file="transformers/utils/hub.py",
        says=_HUB,
    ),
)

FILES: tuple[WaitRule, ...] = (
    *(
        WaitRule(
            kind=WaitKind.LOCK,
            functions=functions,
            file=file,
            op="file-lock",
            says="waiting for a lock file",
        )
        for functions, file in (
            (("acquire", "__enter__", "_acquire", "_poll_until_acquired"), "filelock/_api.py"),
            (("_acquire", "lock_fd_nonblocking"), "filelock/_unix.py"),
            (("_acquire",), "filelock/_soft.py"),
            (("acquire", "__enter__", "_acquire"), "filelock/__init__.py"),
            (("acquire", "__enter__", "_acquire"), "filelock.py"),
            (("acquire", "__enter__", "_acquire", "_try_acquire"), "fasteners/process_lock.py"),
            (("acquire_read_lock", "acquire_write_lock"), "fasteners/process_lock.py"),
            (("acquire", "__enter__", "_get_lock"), "portalocker/utils.py"),
            (("lock",), "portalocker/portalocker.py"),
        )
    ),
    *(
        WaitRule(kind=WaitKind.FILE, functions=("*",), file=file, says=says)
        for file, says in (
            ("gzip.py", _ARCHIVE),
            ("bz2.py", _ARCHIVE),
            ("lzma.py", _ARCHIVE),
            ("_compression.py", _ARCHIVE),
            ("tarfile.py", "reading or writing a tar file"),
            ("zipfile.py", "reading or writing a zip file"),
            ("zipfile/", "reading or writing a zip file"),
            ("shutil.py", "copying, moving or removing files"),
            ("glob.py", "listing a directory"),
            ("h5py/", "reading or writing an HDF5 file"),
            ("tables/file.py", "reading or writing an HDF5 file"),
            ("netCDF4/", "reading or writing a NetCDF file"),
            ("zarr/", "reading or writing a Zarr array"),
            ("pyarrow/parquet/", "reading or writing a Parquet file"),
            ("pyarrow/fs.py", "reading or writing a file (Arrow)"),
            ("pandas/io/", "reading or writing a table (pandas)"),
            ("numpy/lib/npyio.py", "reading or writing an array (numpy)"),
            ("numpy/lib/_npyio_impl.py", "reading or writing an array (numpy)"),
            ("numpy/lib/format.py", "reading or writing an array (numpy)"),
            ("numpy/lib/_format_impl.py", "reading or writing an array (numpy)"),
            ("numpy/core/memmap.py", "mapping an array file (numpy)"),
            ("numpy/_core/memmap.py", "mapping an array file (numpy)"),
            ("PIL/ImageFile.py", "reading an image"),
            ("imageio/", "reading an image"),
            ("torchvision/io/", "reading an image or video"),
            ("decord/", "reading a video"),
            ("soundfile.py", "reading an audio file"),
            ("audioread/", "reading an audio file"),
            ("safetensors/torch.py", "reading or writing a safetensors file"),
            ("fsspec/implementations/local.py", "reading or writing a file (fsspec)"),
            ("tensorboard/summary/writer/event_file_writer.py", "writing TensorBoard events"),
        )
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("open", "preinit"),
        file="PIL/Image.py",
        says="reading an image",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("read_text", "read_bytes", "write_text", "write_bytes", "open", "stat"),
        file="pathlib.py",
        says="reading or writing a file",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("exists", "is_file", "is_dir", "iterdir", "mkdir", "glob", "rglob", "unlink"),
        file="pathlib.py",
        says="asking for a file or directory",
    ),
    *(
        WaitRule(
            kind=WaitKind.FILE,
            functions=("*",),
            file=file,
            says="reading or writing a file",
        )
        for file in ("pathlib/_local.py", "pathlib/_abc.py", "pathlib/__init__.py", "tempfile.py")
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("walk", "_walk", "makedirs", "fwalk"),
        file="os.py",
        says="walking a directory",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("exists", "isfile", "isdir", "getsize", "getmtime", "samefile"),
        file="genericpath.py",
        says="asking for a file or directory",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("exists", "isfile", "isdir", "getsize", "getmtime"),
        file="<frozen genericpath>",
        says="asking for a file or directory",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=("realpath", "_joinrealpath", "lexists", "ismount"),
        file="posixpath.py",
        says="asking for a file or directory",
    ),
    WaitRule(
        # A log handler blocks when nobody reads the pipe or the disk is full or hangs.
        kind=WaitKind.FILE,
        functions=("emit", "flush"),
        file="logging/__init__.py",
        says="writing a log message",
    ),
)

PYTHON: tuple[WaitRule, ...] = (
    *THREADS,
    *PROCESSES,
    *PEOPLE,
    *IMPORTS,
    *NETWORK,
    *FILES,
)
