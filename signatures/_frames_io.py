"""Frames of Python and common packages: network and files."""

from __future__ import annotations

from whyhang.analyzer.waits import WaitKind, WaitRule, names

_HTTP = "in an HTTP request"
_HUB = "downloading from the Hugging Face Hub"
_STORAGE = "reading or writing remote storage"
_ARCHIVE = "reading or writing a compressed file"

NETWORK: tuple[WaitRule, ...] = (
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("readinto accept create_connection sendfile"),
        file="socket.py",
        says="waiting on a socket",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("getaddrinfo getfqdn"),
        file="socket.py",
        says="resolving a host name",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("read recv recv_into send sendall do_handshake connect"),
        file="ssl.py",
        says="waiting on a TLS connection",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names(
            "getresponse begin _read_status read read1 readinto readline _safe_read _read_chunked "
            "connect send request"
        ),
        file="http/client.py",
        says=_HTTP,
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("urlopen open urlretrieve do_open"),
        file="urllib/request.py",
        says=_HTTP,
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("getreply connect getresp getline"),
        file="smtplib.py",
        says="sending mail",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("getline getmultiline ntransfercmd retrbinary"),
        file="ftplib.py",
        says="in an FTP transfer",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("request single_request"),
        file="xmlrpc/client.py",
        says="in an XML-RPC call",
        verified="source Python 3.8-3.13",
    ),
    *(
        WaitRule(
            kind=WaitKind.NETWORK,
            functions=("*",),
            file=file,
            says=says,
            verified="in part run",
        )
        for file, says in (
            ("requests/", _HTTP),
            ("urllib3/", _HTTP),
            ("httpx/", _HTTP),
            ("httpcore/", _HTTP),
            ("httpx2/", _HTTP),
            ("httpcore2/", _HTTP),
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
        )
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("sync sync_wrapper wrapper"),
        file="fsspec/asyn.py",
        says=_STORAGE,
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.NETWORK,
        functions=names("cached_file cached_files has_file get_checkpoint_shard_files"),
        file="transformers/utils/hub.py",
        says=_HUB,
        verified="source",
    ),
)

MESSAGES: tuple[WaitRule, ...] = (
    WaitRule(
        # Helper processes of serving engines stand here when they have nothing to do.
        kind=WaitKind.IDLE,
        functions=("*",),
        file="zmq/",
        says="waiting for a ZeroMQ message",
        verified="source",
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
            verified="in part run",
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
        WaitRule(
            kind=WaitKind.FILE,
            functions=("*",),
            file=file,
            says=says,
            verified="in part run Python 3.8-3.13",
        )
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
        functions=names("open preinit"),
        file="PIL/Image.py",
        says="reading an image",
        verified="run",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("read_text read_bytes write_text write_bytes open stat"),
        file="pathlib.py",
        says="reading or writing a file",
        verified="run Python 3.8-3.12; source Python 3.8-3.12",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("exists is_file is_dir iterdir mkdir glob rglob unlink"),
        file="pathlib.py",
        says="asking for a file or directory",
        verified="source Python 3.8-3.12",
    ),
    *(
        WaitRule(
            kind=WaitKind.FILE,
            functions=("*",),
            file=file,
            says="reading or writing a file",
            verified="in part run",
        )
        for file in ("pathlib/_local.py", "pathlib/_abc.py", "pathlib/__init__.py", "tempfile.py")
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("walk _walk makedirs fwalk"),
        file="os.py",
        says="walking a directory",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("exists isfile isdir getsize getmtime samefile"),
        file="genericpath.py",
        says="asking for a file or directory",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("exists isfile isdir getsize getmtime"),
        file="<frozen genericpath>",
        says="asking for a file or directory",
        verified="source",
    ),
    WaitRule(
        kind=WaitKind.FILE,
        functions=names("realpath _joinrealpath lexists ismount"),
        file="posixpath.py",
        says="asking for a file or directory",
        verified="source Python 3.8-3.13",
    ),
    WaitRule(
        # A log handler blocks when nobody reads the pipe or the disk is full or hangs.
        kind=WaitKind.FILE,
        functions=names("emit flush"),
        file="logging/__init__.py",
        says="writing a log message",
        verified="run Python 3.8-3.13; source Python 3.8-3.13",
    ),
)

IO: tuple[WaitRule, ...] = (*NETWORK, *MESSAGES, *FILES)
