"""An open connection timed out or lost its route.

No reset came back, so the other host vanished from the network rather than its process: node
loss, a cable or switch, a firewall or connection-tracking table that forgot an idle connection.

Neither end need be at fault; look at the host behind the address and at what lies between.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-network-cut",
    category="nccl-network-interface",
    kind=Kind.CAUSE,
    title="The network to {peer} went away",
    when=log(
        (
            r"Call to (?:recv|send|recvmsg|sendmsg)\S*(?: from| to)? (?P<peer>[^\s<]+)<\d+> "
            r"failed ?: (?:Connection timed out|No route to host|Network is unreachable|Network "
            r"is down)"
        ),
    ),
    means=(
        "An established connection stopped carrying traffic: the host behind it died without "
        "closing, or the network between the two is broken."
    ),
    confidence=0.65,
    remedies=(
        "Check that the host behind the address is alive; restart without it if not.",
        "Raise the idle time-outs of firewalls and connection tracking between the nodes.",
    ),
    next_steps=(
        "ping -c 3 ADDRESS; ip -s link  # on both hosts",
        "dmesg -T | grep -i 'link is down'  # on both hosts",
    ),
    matches=(
        (
            "node3:99:140 [1] misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from "
            "10.1.0.4<43210> failed : Connection timed out"
        ),
        (
            "node3:99:140 [1] os/linux.cc:540 NCCL WARN ncclOsSocketProgressOpt: Call to send "
            "to 10.1.0.4<43210> failed : No route to host"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] misc/socket.cc:57 NCCL WARN socketProgressOpt: Call to recv from "
            "10.1.0.4<43210> failed : Connection reset by peer"
        ),
    ),
    outranks=("launcher-exit-code",),
)
