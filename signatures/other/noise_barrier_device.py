"""A warning of barrier() that it does not know this rank's GPU.

Every job that calls barrier before it has used its GPU prints it, healthy or not. Only when two
ranks of a host end on the same GPU is it part of a problem, and then NCCL says so.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-barrier-device",
    category="healthy",
    kind=Kind.NOISE,
    title="barrier() guessed which GPU to use",
    when=log(
        (
            r"using GPU \d+ (?:to perform barrier )?as devices? used by this process (?:are|is) "
            r"currently unknown"
        ),
        (
            r"Guessing device ID based on global rank\. This can cause a hang if rank to GPU "
            r"mapping is heterogeneous"
        ),
    ),
    means=(
        "The message warns of a hang in general terms. The guess is right wherever local rank "
        "and GPU agree, which is nearly always."
    ),
    confidence=0.8,
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "[W ProcessGroupNCCL.cpp:1856] [PG 0 Rank 1] using GPU 1 to perform barrier as "
            "devices used by this process are currently unknown. This can potentially cause a "
            "hang if this rank to GPU mapping is incorrect."
        ),
        (
            "[W1120 23:12:14.6 ProcessGroupNCCL.cpp:4561] [PG ID 0 PG GUID 0 Rank 0] using GPU 0 "
            "as device used by this process is currently unknown. This can potentially cause a "
            "hang if this rank to GPU mapping is incorrect."
        ),
        (
            "UserWarning: Guessing device ID based on global rank. This can cause a hang if rank "
            "to GPU mapping is heterogeneous. You can specify device_id in init_process_group()"
        ),
    ),
    misses=("Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 1000",),
)
