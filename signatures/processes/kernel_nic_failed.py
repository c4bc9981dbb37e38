"""The driver reports that a network card is in a fatal state.

mlx5's health poll found the firmware dead or the device compromised, or commands to it time
out. The card's ports are gone until it is reset; all RDMA connections through it break.

It is a fault of the host; all its ranks and their peers suffer.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-nic-failed",
    category="nccl-ib-error",
    kind=Kind.CAUSE,
    title="A network card of a host failed",
    when=log(
        (
            r"mlx5_core \S+:? .*(?:device's health compromised|health_care|[Ff]atal error(?: "
            r"detected)?|poll_health.*(?:[Ff]atal|reached miss count))"
        ),
        r"mlx5_core \S+:? .*wait_func.*timeout",
        (
            r"mlx5_core \S+:? .*(?:Health issue observed|synd(?:rome)? 0x[0-9a-f]+: (?:High "
            r"temperature|firmware internal error|irisc not responding))"
        ),
    ),
    means="A network card of this host stopped working, and its connections with it.",
    confidence=0.85,
    remedies=(
        (
            "Take the host out of the job; reset the card (mlxfwreset) or power-cycle the "
            "host; update its firmware."
        ),
    ),
    next_steps=("dmesg -T | grep mlx5; ibstat; devlink health show  # on that host",),
    matches=(
        (
            "[ 991.2] mlx5_core 0000:0c:00.0: poll_health:739:(pid 0): device's health "
            "compromised - reached miss count"
        ),
        (
            "[ 991.2] mlx5_core 0000:0c:00.0: print_health_info:402:(pid 0): Health issue "
            "observed, firmware internal error, severity(3) ERROR:"
        ),
        (
            "[ 991.2] mlx5_core 0000:0c:00.0: mlx5_health_care:150: poll_health:755: Fatal "
            "error 1 detected"
        ),
        (
            "[ 991.2] mlx5_core 0000:0c:00.0: wait_func:1167:(pid 812): ACCESS_REG(0x805) "
            "timeout. Will cause a leak of a command resource"
        ),
    ),
    misses=("[ 12.2] mlx5_core 0000:0c:00.0: firmware version: 28.39.1002",),
    outranks=(
        "kernel-link-down",
        "nccl-ib-port-event",
        "nccl-ib-retry-exceeded",
        "launcher-exit-code",
    ),
)
