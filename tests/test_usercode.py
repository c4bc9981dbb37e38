"""Whose code a frame is, and how a path is shown."""

from __future__ import annotations

import pytest

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.stacks.usercode import (
    Origin,
    is_library,
    normal,
    origin_of_file,
    short,
    user_frame,
)


def frame(function: str, file: str, line: int = 1) -> Frame:
    return Frame(function=function, file=file, line=line)


LIBRARY = [
    "/opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py",
    "/usr/local/lib/python3.12/dist-packages/requests/sessions.py",
    "/usr/lib/python3.11/queue.py",
    "/usr/lib/python3/dist-packages/yaml/loader.py",
    "/opt/python/lib/python3.11/multiprocessing/queues.py",
    "/home/me/src/pytorch/torch/distributed/distributed_c10d.py",
    "torch/utils/data/dataloader.py",
    "threading.py",
    "queue.py",
    "pathlib.py",
    "asyncio/base_events.py",
    "concurrent/futures/thread.py",
    "<frozen runpy>",
    "<frozen importlib._bootstrap>",
    "<string>",
    "<eval_with_key>.12",
    "typing_extensions.py",
    "torchrun",
    "/usr/local/bin/torchrun",
    "/tmp/torchinductor_me/ab/cabc.py",
    "datasets/arrow_dataset.py",
    "libtorch_cpu.so",
    "socketmodule.c",
    "mpi4py/MPI.src/Comm.pyx",
]
FRAMEWORK = [
    "megatron/training.py",
    "deepspeed/runtime/pipe/engine.py",
    "transformers/trainer.py",
    "/workspace/Megatron-LM/megatron/core/pipeline_parallel/schedules.py",
    "/usr/local/lib/python3.12/dist-packages/sglang/srt/managers/scheduler.py",
    # installed and unknown: it may well be the user's own project
    "/opt/conda/lib/python3.10/site-packages/our_trainer/loop.py",
]
USER = [
    "train.py",
    "evaluate.py",
    "email.py",
    "src/train.py",
    "datasets/coco.py",
    "queue/worker.py",
    "profile/run.py",
    "utils.py",
    "/workspace/project/train.py",
    "/home/me/requests/train.py",
    "/home/me/megatron/train.py",
    "<ipython-input-3-abc>",
    "<stdin>",
    "/tmp/ipykernel_77/123.py",
    "/tmp/ray/session_1/runtime_resources/working_dir_files/_ray_pkg_1/train.py",
]


@pytest.mark.parametrize("file", LIBRARY)
def test_library(file: str) -> None:
    """Torch, Python's own modules and installed packages are told by path or short path."""
    assert origin_of_file(file) is Origin.LIBRARY


@pytest.mark.parametrize("file", FRAMEWORK)
def test_framework(file: str) -> None:
    """Training frameworks are a third answer, also from a checkout."""
    assert origin_of_file(file) is Origin.FRAMEWORK


@pytest.mark.parametrize("file", USER)
def test_user(file: str) -> None:
    """What is not known to be somebody else's is the user's, even under a famous name."""
    assert origin_of_file(file) is Origin.USER


def test_native_frames_are_libraries() -> None:
    """A native frame is never the place to point at."""
    assert is_library(Frame(function="f", file="my_kernels.py", native=True))


def test_user_frame_is_the_innermost_of_ones_own() -> None:
    """The user's own code comes before a framework that is nearer to the wait."""
    stack = [
        frame("broadcast", "torch/distributed/distributed_c10d.py"),
        frame("eval_batch", "deepspeed/runtime/pipe/engine.py"),
        frame("evaluate", "eval.py", 7),
        frame("<module>", "train.py", 9),
    ]
    assert user_frame(stack) == stack[2]
    assert user_frame(stack[:2]) == stack[1]
    assert user_frame(stack[:1]) is None


@pytest.mark.parametrize(
    ("path", "shown"),
    [
        (
            "/opt/conda/lib/python3.10/site-packages/torch/nn/modules/module.py",
            "torch/nn/modules/module.py",
        ),
        ("/usr/lib/python3.11/multiprocessing/queues.py", "multiprocessing/queues.py"),
        ("/workspace/Megatron-LM/megatron/core/x.py", "megatron/core/x.py"),
        ("/home/me/project/data/loader.py", "data/loader.py"),
        ("/train.py", "train.py"),
        ("data/loader.py", "data/loader.py"),
        ("<frozen runpy>", "<frozen runpy>"),
    ],
)
def test_short(path: str, shown: str) -> None:
    """Reports show a path from its package on, or its last two parts."""
    assert short(path) == shown


def test_normal_is_equal_for_equal_places() -> None:
    """One place has one key, whether a tool prints full paths or qualified names or not."""
    assert normal(frame("Net.forward", "/w/job/train.py", 5)) == normal(
        frame("forward", "train.py", 5)
    )
    assert normal(frame("Queue.get", "/usr/lib/python3.12/queue.py", 171)) == normal(
        frame("get", "queue.py", 171)
    )
    assert normal(frame("forward", "train.py", 5)) != normal(frame("forward", "train.py", 6))


def test_normal_of_addresses() -> None:
    """An address without a symbol is another one on each rank and must not tell them apart."""
    one = Frame(function="0x7f12", file="/lib/libc.so.6", native=True)
    other = Frame(function="0x7faa", file="libc.so.6", native=True)
    assert normal(one) == normal(other)


def test_a_comprehension_gives_way_to_the_function_around_it() -> None:
    """Until Python 3.12 a comprehension is a frame of its own, and says nothing to a person."""
    inner = Frame(function="load.<locals>.<listcomp>", file="train.py", line=6)
    outer = Frame(function="load", file="train.py", line=6)
    other = Frame(function="main", file="run.py", line=9)

    assert user_frame((inner, outer, other)) == outer
    assert user_frame((inner, other)) == inner
    assert user_frame((inner,)) == inner
