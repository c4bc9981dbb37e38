"""What the tools of hosts and clusters print: network ports, error counters, jobs, pods, nodes.

Each is about a host as far as its source names one, and cites the words that say so.
"""

from typing import Literal

from whyhang.analyzer.facts.statements import Statement


class NetworkPort(Statement):
    """A network port or interface, as ibstat, rdma link, ip, ethtool or a table shows it.

    ``name`` is "mlx5_0/1" or "eth0", ``netdev`` the interface of an RDMA port. ``up`` is None where
    only its addresses are told. ``addresses`` have their prefix where it is printed: "10.0.0.1/24".
    """

    name: str
    quote: str
    up: bool | None = None
    state: str = ""
    netdev: str | None = None
    addresses: tuple[str, ...] = ()


class ErrorCounter(Statement):
    """A counter of errors of a network port; ``port`` is None where the print does not name it."""

    port: str | None
    name: str
    value: int


class Scheduled(Statement):
    """A job, step, node or pod as sacct, squeue, scontrol, sinfo or kubectl shows it.

    ``state`` is the scheduler's word in full ("OUT_OF_MEMORY", "NotReady"), ``reason`` says why,
    ``hosts`` are where a job or pod runs.
    ``index`` is a pod's number among those of its job that hold ranks, where its labels tell it.
    """

    kind: Literal["job", "node", "pod"]
    name: str
    state: str
    quote: str
    reason: str = ""
    hosts: tuple[str, ...] = ()
    index: int | None = None


class ProcessState(Statement):
    """A process as ps lists it: the kernel's letter for its state ("" where no column tells it)."""

    state: str
    command: str
    quote: str
    wchan: str = ""


class LaunchPlan(Statement):
    """How many ranks a batch script or a job's specification starts; None: it cannot be told.

    ``slots`` is how many tasks the allocation has room for, ``nodes`` how many hosts it has,
    ``master`` what the script sets as MASTER_ADDR, ``placed`` the host of each slot, in order
    (None: a command fills them in another).
    """

    quote: str
    ranks: int | None
    slots: int | None = None
    nodes: int = 1
    master: str | None = None
    placed: tuple[str, ...] | None = ()


class Capacity(Statement):
    """How large a file system is, in bytes, and which share of it is free."""

    quote: str
    mount: str
    size: float
    free: float


class OpenPort(Statement):
    """A TCP port on which something listens, at one address or at all ("*", "0.0.0.0", "::")."""

    quote: str
    address: str
    port: int
