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

PROBES: tuple[Probe, ...] = (
    recorders.PROBE,
    heartbeats.PROBE,
    kernel_log.PROBE,
    ras.PROBE,
    gpus.PROBE,
    store.PROBE,
    file_store.PROBE,
    source_lines.PROBE,
    logs.PROBE,
    libraries.PROBE,
    pressure.PROBE,
    interfaces.PROBE,
    group_connections.PROBE,
)
"""In the order in which their files stand in a bundle."""
