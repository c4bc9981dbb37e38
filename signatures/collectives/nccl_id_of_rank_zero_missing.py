"""Ranks waited for the NCCL id that rank 0 publishes at its first collective.

The communicator of the default group is set up lazily, at the first collective: rank 0 creates
an id, all others fetch it from the store. When rank 0 is still loading, downloading,
preprocessing or saving alone (or has crashed), the others wait here until the timeout, 10
minutes by default. The store itself answered, so the network is not the reason.

Up to torch 2.2 the line names no group. Where the waiter's rank within its group is its global
rank, all below it are, too, since the ranks of a group are sorted: its first is rank 0.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-id-of-rank-zero-missing",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Rank 0 never reached the first NCCL collective",
    when=log(
        (
            r"setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId(?:\(s\))? from "
            r"(?:\[(?P<rank>0)\]|roots?) via .* by key '\d+'.* (?:wait timeout after \d+ms, keys: "
            r"\S*/default_pg/0//cuda//\d+|Timeout waiting for key: \S*default_pg/0/\d+ )"
        ),
        (
            r"\[rank(?P<waiter>[1-9]\d*)\]:?.{0,80}\[(?P=waiter)\] is setting up NCCL "
            r"communicators? and retr(?:ie|ei)ving ncclUniqueId(?:\(s\))? from \[(?P<rank>0)\] "
            r"via .* by key '\d+', but store->get\('[^']*'\) got error: (?:Socket "
            r"Timeout|wait timeout)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "Rank 0 creates the NCCL id at its first collective and puts it into the store; the "
        "others wait for it. It never came, so rank 0 was still busy with something else, or had "
        "died."
    ),
    confidence=0.75,
    remedies=(
        "Look at what rank 0 does before the first collective that the others skip.",
        (
            "Give the group a longer timeout (init_process_group(timeout=...)), or move the long "
            "work before the group is created."
        ),
        "Do downloads and preprocessing on one rank with a barrier for all, on all ranks.",
    ),
    next_steps=("py-spy dump --pid PID  # of rank 0 while the others wait",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from "
            "[0] via c10d key-value store by key '0', but store->get('0') got error: Timeout "
            "waiting for key: default_pg/0/0 after 1800000 ms"
        ),
        (
            "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: Socket Timeout"
        ),
        (
            "torch.distributed.DistBackendError: [3] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: wait timeout after 600000ms, keys: /default_pg/0//cuda//0"
        ),
        (
            "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: wait timeout after "
            "1800000ms, keys: /worker/attempt_0/default_pg/0//cuda//0"
        ),
    ),
    misses=(
        (
            "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0:1', but "
            "store->get('0:1') got error: wait timeout after 600000ms, keys: "
            "/default_pg/0//cuda//0:1"
        ),
        (
            "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: Connection reset by peer."
        ),
    ),
    outranks=(
        "nccl-id-never-came",
        "store-key-wait",
    ),
)
