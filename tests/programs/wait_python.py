"""Programs without torch that wait, one function for each wait: ``wait_python.py NAME FOLDER``.

``ready()`` is called right before the wait; ``capture.py`` then takes the stacks. Functions
whose packages are not installed simply fail, and are left out.
"""

# ruff: noqa: FBT002, F401, ICN001, PTH123, SIM115, T100 - it does what such programs do
from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

NAME, FOLDER = sys.argv[1], Path(sys.argv[2])


def ready() -> None:
    (FOLDER / "ready0").touch()


def hold(lock) -> None:
    with lock:
        time.sleep(1000)


def fifo(both_ends=True) -> Path:
    path = FOLDER / "fifo"
    os.mkfifo(path)
    if both_ends:
        globals()["kept"] = os.open(path, os.O_RDWR)
    return path


def silent_server() -> str:
    server = socket.create_server(("127.0.0.1", 0))
    globals()["kept"] = server
    return f"127.0.0.1:{server.getsockname()[1]}"


# --- sleeping, running ---


def sleep():
    ready()
    time.sleep(1000)


def loop():
    ready()
    count = 0
    while True:
        count += 1


# --- threads ---


def lock():
    mutex = threading.Lock()
    threading.Thread(target=hold, args=(mutex,), daemon=True).start()
    time.sleep(0.2)
    ready()
    with mutex:
        pass


def rlock():
    mutex = threading.RLock()
    threading.Thread(target=hold, args=(mutex,), daemon=True).start()
    time.sleep(0.2)
    ready()
    mutex.acquire()


def event():
    ready()
    threading.Event().wait()


def condition():
    cond = threading.Condition()
    ready()
    with cond:
        cond.wait()


def semaphore():
    ready()
    threading.Semaphore(0).acquire()


def barrier_of_threads():
    ready()
    threading.Barrier(2).wait()


def queue_get():
    import queue

    ready()
    queue.Queue().get()


def queue_put():
    import queue

    full = queue.Queue(1)
    full.put(1)
    ready()
    full.put(2)


def simple_queue():
    import queue

    ready()
    queue.SimpleQueue().get()


def join():
    thread = threading.Thread(target=hold, args=(threading.Lock(),))
    thread.start()
    ready()
    thread.join()


def threads_at_exit():
    threading.Thread(target=hold, args=(threading.Lock(),)).start()
    ready()


def future():
    from concurrent.futures import ThreadPoolExecutor

    result = ThreadPoolExecutor(1).submit(hold, threading.Lock())
    ready()
    result.result()


def gil():
    import ctypes

    def holder():
        ctypes.PyDLL(None).sleep(1000)  # PyDLL calls without giving the GIL up

    ready()
    threading.Thread(target=holder, name="holder", daemon=True).start()
    time.sleep(1000)


def event_loop():
    import asyncio

    ready()
    asyncio.run(asyncio.sleep(1000))


def tqdm_lock():
    from tqdm import tqdm

    threading.Thread(target=hold, args=(tqdm.get_lock(),), daemon=True).start()
    time.sleep(0.2)
    ready()
    tqdm(total=1).update()


def log_lock():
    import logging

    handler = logging.StreamHandler()
    logging.getLogger().addHandler(handler)
    threading.Thread(target=hold, args=(handler.lock,), daemon=True).start()
    time.sleep(0.2)
    ready()
    logging.getLogger().error("x")


# --- processes ---


def run_child():
    ready()
    subprocess.run(["sleep", "1000"])


def child_output():
    ready()
    subprocess.check_output(["sleep", "1000"])


def system():
    ready()
    os.system("sleep 1000")


def mp_queue():
    import multiprocessing

    ready()
    multiprocessing.Queue().get()


def mp_pipe():
    import multiprocessing

    one, other = multiprocessing.Pipe()
    ready()
    one.recv()
    other.close()


def mp_lock():
    import multiprocessing

    mutex = multiprocessing.Lock()
    mutex.acquire()
    ready()
    with mutex:
        pass


def nap(seconds):
    time.sleep(seconds)


def mp_pool():
    import multiprocessing

    result = multiprocessing.Pool(1).apply_async(nap, (1000,))
    time.sleep(0.3)
    ready()
    result.get()


def mp_process():
    import multiprocessing

    process = multiprocessing.Process(target=nap, args=(1000,))
    process.start()
    ready()
    process.join()


def joblib_pool():
    import joblib

    ready()
    joblib.Parallel(n_jobs=2)(joblib.delayed(time.sleep)(1000) for _ in range(2))


# --- people ---


def input_terminal():
    ready()
    input("continue? ")


def input_pipe():
    ready()
    input("continue? ")


def pdb_terminal():
    ready()
    breakpoint()
    print("after")


def ipdb_terminal():
    import ipdb

    ready()
    ipdb.set_trace()
    print("after")


def console_terminal():
    import code

    ready()
    code.interact()


def password_terminal():
    import getpass

    ready()
    getpass.getpass()


# --- files ---


def flock():
    import fcntl

    one, other = (FOLDER / "l").open("w"), (FOLDER / "l").open("w")
    fcntl.flock(one, fcntl.LOCK_EX)
    ready()
    fcntl.flock(other, fcntl.LOCK_EX)


def lockf():
    import fcntl

    taken = (FOLDER / "l").open("w")
    if os.fork() == 0:
        fcntl.lockf(taken, fcntl.LOCK_EX)
        time.sleep(1000)
    time.sleep(0.3)
    ready()
    fcntl.lockf((FOLDER / "l").open("w"), fcntl.LOCK_EX)


def _held_lock_file() -> str:
    import fcntl

    path = FOLDER / "lockfile"
    globals()["kept"] = held = path.open("w")
    if os.fork() == 0:
        fcntl.flock(held, fcntl.LOCK_EX)
        fcntl.lockf(held, fcntl.LOCK_EX)
        time.sleep(1000)
    time.sleep(0.3)
    return str(path)


def filelock_package():
    from filelock import FileLock

    path = _held_lock_file()
    ready()
    with FileLock(path):
        pass


def fasteners_package():
    import fasteners

    path = _held_lock_file()
    ready()
    with fasteners.InterProcessLock(path):
        pass


def portalocker_package():
    import portalocker

    path = _held_lock_file()
    ready()
    with portalocker.Lock(path, timeout=1000):
        pass


def os_read():
    descriptor = os.open(fifo(), os.O_RDWR)
    ready()
    os.read(descriptor, 10)


def open_file():
    path = fifo(both_ends=False)
    ready()
    open(path).read()


def read_file():
    path = fifo()
    ready()
    open(path).read()


def path_read():
    path = fifo(both_ends=False)
    ready()
    path.read_text()


def gzip_read():
    import gzip

    path = fifo()
    ready()
    gzip.open(path).read()


def tar_read():
    import tarfile

    path = fifo()
    ready()
    tarfile.open(path, "r|")


def numpy_load():
    import numpy

    path = fifo()
    ready()
    numpy.load(path)


def pandas_read():
    import pandas

    path = fifo()
    ready()
    pandas.read_csv(path)


def image_open():
    from PIL import Image

    path = fifo(both_ends=False)
    ready()
    Image.open(path)


def copy_file():
    import shutil

    path = fifo()
    ready()
    with open(path, "rb") as source, (FOLDER / "out").open("wb") as target:
        shutil.copyfileobj(source, target)


def log_to_full_pipe():
    import logging

    _, end = os.pipe()
    logging.getLogger().addHandler(logging.StreamHandler(os.fdopen(end, "w")))
    ready()
    while True:
        logging.getLogger().error("x" * 4096)


def print_to_full_pipe():
    _, end = os.pipe()
    file = os.fdopen(end, "w")
    ready()
    while True:
        print("x" * 4096, file=file)


# --- imports ---


def _slow_module() -> None:
    (FOLDER / "slow_module.py").write_text("import time\ntime.sleep(1000)\n")
    sys.path.insert(0, str(FOLDER))


def import_module():
    _slow_module()
    ready()
    import slow_module


def import_lock():
    _slow_module()
    threading.Thread(target=lambda: __import__("slow_module"), daemon=True).start()
    time.sleep(0.3)
    ready()
    import slow_module


# --- network ---


def recv():
    one, other = socket.socketpair()
    ready()
    one.recv(10)
    other.close()


def recv_tcp():
    host, port = silent_server().split(":")
    client = socket.create_connection((host, int(port)))
    ready()
    client.recv(10)


def accept():
    silent_server()
    ready()
    globals()["kept"].accept()


def select_file():
    import selectors

    one, other = socket.socketpair()
    selector = selectors.DefaultSelector()
    selector.register(one, selectors.EVENT_READ)
    ready()
    selector.select()
    other.close()


def urllib_open():
    import urllib.request

    address = silent_server()
    ready()
    urllib.request.urlopen(f"http://{address}/").read()


def requests_get():
    import requests

    address = silent_server()
    ready()
    requests.get(f"http://{address}/")


def httpx_get():
    import httpx

    address = silent_server()
    ready()
    httpx.get(f"http://{address}/", timeout=None)


def aiohttp_get():
    import asyncio

    import aiohttp

    async def fetch(address):
        async with aiohttp.ClientSession() as session, session.get(address) as answer:
            await answer.read()

    address = silent_server()
    ready()
    asyncio.run(fetch(f"http://{address}/"))


def hub_download():
    address = silent_server()
    os.environ["HF_ENDPOINT"] = f"http://{address}"
    os.environ["HF_HUB_DOWNLOAD_TIMEOUT"] = os.environ["HF_HUB_ETAG_TIMEOUT"] = "900"
    from huggingface_hub import hf_hub_download

    ready()
    hf_hub_download("a/b", "config.json", cache_dir=FOLDER)


def boto3_get():
    import boto3
    from botocore.config import Config

    address = silent_server()
    client = boto3.client(
        "s3",
        endpoint_url=f"http://{address}",
        aws_access_key_id="x",
        aws_secret_access_key="x",
        region_name="x",
        config=Config(read_timeout=900),
    )
    ready()
    client.get_object(Bucket="a", Key="b")


def s3fs_open():
    import s3fs

    address = silent_server()
    storage = s3fs.S3FileSystem(
        key="x",
        secret="x",
        client_kwargs={"endpoint_url": f"http://{address}"},
        config_kwargs={"read_timeout": 900},
    )
    ready()
    storage.open("a/b").read()


def grpc_call():
    import grpc

    address = silent_server()
    channel = grpc.insecure_channel(address)
    ready()
    channel.unary_unary("/a/b")(b"x", wait_for_ready=True)


def zmq_recv():
    import zmq

    pull = zmq.Context().socket(zmq.PULL)
    pull.bind("tcp://127.0.0.1:*")
    ready()
    pull.recv()


def redis_get():
    import redis

    host, port = silent_server().split(":")
    ready()
    redis.Redis(host, int(port)).get("a")


globals()[NAME]()
