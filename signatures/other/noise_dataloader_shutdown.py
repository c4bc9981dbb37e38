"""Exceptions inside destructors of a DataLoader, which Python ignores.

They appear at the end of a process, after an error or a normal end, and in forked children that
inherit an iterator.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-dataloader-shutdown",
    category="healthy",
    kind=Kind.NOISE,
    title="A DataLoader was cleaned up in an unusual order at exit",
    when=log(
        r"Exception ignored in: <function _MultiProcessingDataLoaderIter\.__del__",
        r"AssertionError: can only test a child process",
        r"Producer process has been terminated before all shared CUDA tensors released",
        r"'_MultiProcessingDataLoaderIter' object has no attribute '_workers_status'",
    ),
    means=(
        "Python prints exceptions from destructors and goes on. They come from the order of "
        "cleaning up, after the real end."
    ),
    confidence=0.8,
    matches=(
        (
            "Exception ignored in: <function _MultiProcessingDataLoaderIter.__del__ at "
            "0x7f1b95ec0d60>"
        ),
        "AssertionError: can only test a child process",
        (
            "[W CudaIPCTypes.cpp:15] Producer process has been terminated before all shared CUDA "
            "tensors released. See Note [Sharing CUDA tensors]"
        ),
        (
            "AttributeError: '_MultiProcessingDataLoaderIter' object has no attribute "
            "'_workers_status'"
        ),
    ),
    misses=("AssertionError: Invalid thread, must be called from main",),
)
