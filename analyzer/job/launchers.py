"""What launchers are called, and what they tell the ranks that they start by their environment.

``launchers.toml`` is the one place to add a launcher to; Slurm's lists of hosts are read in
``slurm_hosts``.
"""

from collections.abc import Iterator, Sequence

from whyhang.analyzer import toml
from whyhang.analyzer.facts import Record, Role


class RankVariables(Record):
    """What one launcher calls the rank, the rank within the host and the number of ranks.

    Of several names the first that is set counts.
    """

    by: str
    rank: tuple[str, ...]
    local_rank: tuple[str, ...]
    world_size: tuple[str, ...]


class AgentOptions(Record):
    """Options of launchers whose agents meet: ``flags`` take no value, ``same`` are other names."""

    flags: str
    wanted: str
    same: dict[str, str]
    default_ports: dict[str, str]


class _Table(Record):
    programs: dict[str, tuple[str, ...]]
    variables: tuple[RankVariables, ...]
    started_by: dict[str, str]
    options: AgentOptions
    roles: dict[str, Role]


_TABLE = toml.read(__package__, "launchers.toml", _Table)
PROGRAMS = {name: kind for kind, names in _TABLE.programs.items() for name in names}
"""The kind of launcher by each name of its program, or of the script or module of Python."""

PER_NODE = frozenset({"torchrun", "accelerate", "deepspeed", "mp.spawn"})
"""Launchers that start ranks themselves: one of them runs on each node."""

MEETING = frozenset({"torchrun", "torch.distributed.launch", "accelerate"})
"""Launchers with a rendezvous of their own, at which those of all nodes meet."""

SCHEDULERS = {"mpirun", "slurm", "ray"}
"""Launchers that start anything; the others start ranks of torch.distributed only."""

TORCH, *OTHERS = _TABLE.variables
"""By the first torch.distributed goes."""

RANK_NAMES = (b"RANK=", b"RANKID=", b"SLURM_PROCID=")
"""One of these is in every environment that names a rank."""

MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
WORLD_SIZES = (
    *("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE"),
    *("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"),
)
"""What says how many ranks there are, surest first, whichever says which rank it is."""

LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""What says how many ranks of the job were started on this host, or by this agent."""

OPTIONS = _TABLE.options

ROLES = _TABLE.roles
"""What a process is by the tail of a file on its stack; the first that fits counts."""

STARTED_BY = _TABLE.started_by
"""The launcher of a job by a variable of its ranks, the innermost first."""


def launcher_of(arguments: Sequence[str]) -> str | None:
    """Name the kind of launcher that a command line runs."""
    return next((PROGRAMS[name] for name in program_names(arguments) if name in PROGRAMS), None)


def program_names(arguments: Sequence[str]) -> Iterator[str]:
    """Yield what a command line runs: program, module or script, by name and by path tail."""
    if not arguments:
        return
    yield arguments[0].rpartition("/")[2]
    rest = iter(arguments[1:])
    for argument in rest:
        if argument == "-m":
            yield next(rest, "")
            return
        if argument in {"-c", "--"}:
            return
        if argument in {"-X", "-W"}:
            next(rest, "")
        elif not argument.startswith("-"):
            yield argument.rpartition("/")[2]
            yield "/".join(argument.split("/")[-3:])
            return
