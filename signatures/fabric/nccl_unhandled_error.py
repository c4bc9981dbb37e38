"""NCCL gave up with an error code, and the line that says why was not printed.

PyTorch and nccl-tests repeat only NCCL's word for the code: a system call failed (sockets, shared
memory, verbs), a CUDA call failed, or a check of NCCL's own did. The reason stands in a WARN line
before it, which needs NCCL_DEBUG=WARN, or under "Last error:" with newer versions.

A broken-off peer has a code of its own (ncclRemoteError) and is not meant here.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-unhandled-error",
    category="nccl-internal-error",
    kind=Kind.CAUSE,
    title="NCCL failed with an error whose reason the logs do not give",
    when=log(
        (
            r"NCCL [Ee]rror(?: in| \d+)?: (?:\S+:\d+, )?(?:unhandled system error|"
            r"unhandled cuda error|internal error)"
        ),
        r"NCCL failure \S+:\d+ '(?:unhandled system error|unhandled cuda error|internal error)",
        r"NCCL [Ee]rror(?: in| \d+)?: (?:\S+:\d+, )?invalid (?:usage|argument)",
        r"^(?:\[rank\d+\]: ?)?nccl(?:System|Internal|UnhandledCuda)Error: ",
        r"^(?:\[rank\d+\]: ?)?ncclInvalid(?:Usage|Argument): ",
    ),
    unless=log(
        r"ncclRemoteError|remote process exited or there was a network error",
        r"Socket (?:recv|send) failed while polling|Connection closed by|reset by peer",
    ),
    means=(
        "A call of NCCL failed and the job ended on it. What lies below it (network, shared "
        "memory, driver, GPU) is not in the logs, so no rank can be blamed."
    ),
    confidence=0.5,
    remedies=("Run again with NCCL_DEBUG=WARN (or INFO): the WARN line before it is the cause.",),
    next_steps=(
        "grep -n 'NCCL WARN' LOG  # in the logs of all ranks",
        "df -h /dev/shm; ulimit -l; nvidia-smi; dmesg -T | grep -i xid  # on each host",
    ),
    links=("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting.html",),
    matches=(
        (
            "RuntimeError: NCCL error in: ../torch/lib/c10d/ProcessGroupNCCL.cpp:825, invalid "
            "usage, NCCL version 2.7.8"
        ),
        "RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)",
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
        (
            "RuntimeError: NCCL error in: /pytorch/torch/lib/c10d/ProcessGroupNCCL.cpp:825, "
            "unhandled system error, NCCL version 2.7.8"
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/"
            "ProcessGroupNCCL.cpp:1970, internal error - please report this issue to the NCCL "
            "developers, NCCL version 2.20.5"
        ),
        "ncclSystemError: System call (e.g. socket, malloc) or external library call failed",
        "[rank3]: ncclUnhandledCudaError: Call to CUDA function failed.",
        (
            "node3: Test NCCL failure common.cu:1005 'unhandled system error (run with "
            "NCCL_DEBUG=INFO for details) / '"
        ),
        (
            "torch.distributed.DistBackendError: NCCL error in: "
            "../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1691, invalid argument (run "
            "with NCCL_DEBUG=WARN for details), NCCL version 2.21.5"
        ),
    ),
    misses=(
        (
            "DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1970, remote process exited "
            "or there was a network error, NCCL version 2.20.5"
        ),
        "ncclRemoteError: A call failed possibly due to a network error",
        "node3:99:140 [1] NCCL INFO ncclSystemError: retried",
        (
            "node3:99:140 [1] proxy.cc:1148 NCCL WARN Socket recv failed while polling for "
            "opId=0x147999b41d80"
        ),
    ),
    outranks=("launcher-exit-code", "plain-exception"),
    gives_way=True,
)
