"""A peer's host answered with a reset, or the pipe is broken.

The process at the other end is gone: killed, crashed, or it aborted its communicator after its
own error. The rank that prints it is a witness.

A time-out in the same place means something else: see nccl-network-cut.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-peer-reset",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A peer reset its NCCL connection",
    when=log(
        (
            r"Call to (?:(?:recv|send)(?:msg)?|read|write)\b.* failed ?: "
            r"(?:Connection reset by peer|Broken pipe)"
        ),
    ),
    means="The process at the other end is gone. Its own end is the event to look for.",
    confidence=0.8,
    next_steps=("Find the process behind the address and read its last lines",),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from "
            "10.1.0.4<43210> failed : Connection reset by peer"
        ),
        (
            "node3:99:140 [1] os/linux.cc:540 NCCL WARN ncclOsSocketProgressOpt: Call to send "
            "to 10.1.0.4<43210> failed : Broken pipe"
        ),
        (
            "node3:57:121 [0] include/socket.h:398 NCCL WARN Call to write failed : Connection "
            "reset by peer"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from "
            "10.1.0.4<43210> failed : Connection timed out"
        ),
    ),
)
