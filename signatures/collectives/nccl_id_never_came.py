"""Ranks waited in vain for the NCCL id that the first rank of a group publishes.

'[0]' is the first rank within that group, which for a sub-group is not global rank 0; for
point-to-point the key reads 'a:b' and the id comes from the lower rank of the pair. So the line
tells that the group's first rank did not come, and not which process that is.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-id-never-came",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="The first rank of a group never published the NCCL id that others wait for",
    when=log(
        (
            r"setting up NCCL communicators? and retr(?:ie|ei)ving ncclUniqueId(?:\(s\))? from "
            r"(?:\[0\]|roots?) via .*, but store->get\('[^']*'\) got error: (?:Socket "
            r"Timeout|wait timeout|Timeout waiting for key)"
        ),
        (
            r"setting up NCCL communicators and retr(?:ie|ei)ving ncclUniqueId\(s\) from roots via "
            r"TCPStore by key '[^']*'.* wait timeout after"
        ),
    ),
    unless=log(
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
    ),
    means=(
        "The first collective on a group needs an id that the group's first rank puts into the "
        "store. It did not come in time: that rank is elsewhere in its code, or dead."
    ),
    confidence=0.6,
    remedies=(
        (
            "Find the first member of that group and look at what it does instead of the first "
            "collective."
        ),
        "Let all members of a group make their first call on it at the same point of the program.",
    ),
    next_steps=("py-spy dump --pid PID  # of the group's first rank",),
    links=("https://pytorch.org/docs/stable/distributed.html",),
    matches=(
        (
            "[rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and "
            "retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but "
            "store->get('0') got error: Socket Timeout"
        ),
        (
            "RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from "
            "[0] via c10d key-value store by key '0', but store->get('0') got error: Timeout "
            "waiting for key: default_pg/0/0 after 1800000 ms"
        ),
        (
            "RuntimeError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from "
            "[0] via c10d key-value store by key '0', but store->get('0') got error: Socket "
            "Timeout"
        ),
        (
            "[5] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0:1', but store->get('0:1') got error: wait timeout after "
            "600000ms, keys: /default_pg/0//2//cuda//0:1"
        ),
        (
            "[4] is setting up NCCL communicators and retrieving ncclUniqueId(s) from roots via "
            "TCPStore by key '1', but got error: wait timeout after 600000ms, keys: "
            "/default_pg/0//5//cuda//1"
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
            "[1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d "
            "key-value store by key '0', but store->get('0') got error: Connection reset by "
            "peer. This may indicate a possible application crash on rank 0 or a network set up "
            "issue."
        ),
    ),
    outranks=("store-key-wait",),
)
