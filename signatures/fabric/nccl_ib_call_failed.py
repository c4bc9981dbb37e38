"""The verbs library refused a call of NCCL.

Posting to or polling a queue, querying a GID or port: the card is in an error state, its driver
and user library do not fit, or the connection broke before.

Look for kernel messages of the card's driver on that host.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-ib-call-failed",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A verbs call failed on {who}: {call}",
    when=log(
        (
            r"Call to (?P<call>ibv_(?:post_send|post_recv|poll_cq|query_gid|query_port|"
            r"query_device|open_device|get_device_list|req_notify_cq|get_async_event)) failed"
        ),
        blames=Blames.SPEAKER,
    ),
    means="NCCL could not talk to the network card of this host.",
    confidence=0.6,
    remedies=(
        "Check the card on that host; reload its driver or take the host out of the job.",
        "Install a user-space RDMA library that fits the host's driver into the image.",
    ),
    next_steps=(
        "ibv_devinfo; dmesg -T | grep -iE 'mlx5|infiniband'  # in the container, and on the host",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:120 NCCL WARN Call to ibv_query_gid failed with "
            "error Invalid argument"
        ),
        (
            "node3:99:140 [1] misc/ibvwrap.cc:260 NCCL WARN Call to ibv_post_send failed with "
            "error Invalid argument, Bad WR 0x7f, First WR 0x7f"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/ibvwrap.cc:190 NCCL WARN Call to ibv_modify_qp failed with "
            "error Connection timed out"
        ),
    ),
    outranks=("launcher-exit-code",),
)
