"""What is asked of a live job beside its stacks: a file for each kind of evidence, listed here."""

from whyhang.collectors.live.probes import (
    file_store,
    gpus,
    group_connections,
    heartbeats,
    interfaces,
    kernel_log,
    libraries,
    logs,
    pressure,
    ras,
    recorders,
    source_lines,
    store,
)
from whyhang.collectors.live.probes.probe import Probe

PROBES: tuple[Probe, ...] = tuple(
    module.PROBE
    for module in (
        *(recorders, heartbeats, kernel_log, ras, gpus, store, file_store, source_lines, logs),
        *(libraries, pressure, interfaces, group_connections),
    )
)
"""In the order in which their files stand in a bundle."""
