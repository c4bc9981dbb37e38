"""What launchers are called, and what they tell the ranks that they start by their environment.

This is the one place to add a launcher to; Slurm's lists of hosts are read in ``slurm_hosts``.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NAMES = {
    "torchrun": "torchrun torch.distributed.run torch/distributed/run.py",
    "torch.distributed.launch": "torch.distributed.launch torch/distributed/launch.py",
    "accelerate": "accelerate accelerate-launch accelerate.commands.launch",
    "deepspeed": "deepspeed deepspeed.launcher.runner deepspeed.launcher.launch",
    "composer": "composer",
    "colossalai": "colossalai",
    "horovodrun": "horovodrun",
    "mpirun": "mpirun mpiexec mpiexec.hydra mpiexec.mpich mpirun.openmpi mpiexec.openmpi orterun"
    " orted prterun prted hydra_pmi_proxy palsd",
    "slurm": "srun slurmstepd",
    "ray": "raylet",
}
"""By kind, names of the program, or of the script or module that Python runs."""

PROGRAMS = {name: kind for kind, names in _NAMES.items() for name in names.split()}
"""The kind of launcher by each of these names."""

PER_NODE = frozenset({"torchrun", "accelerate", "deepspeed", "mp.spawn"})
"""Launchers that start ranks themselves: one of them runs on each node."""

SCHEDULERS = {"mpirun", "slurm", "ray"}
"""Launchers that start anything; the others start ranks of torch.distributed only."""


class RankVariables(NamedTuple):
    """What one launcher calls the rank, the rank within the host and the number of ranks.

    Of several names the first that is set counts.
    """

    by: str
    rank: str
    local_rank: str
    world_size: str


TORCH = RankVariables("env", "RANK", "LOCAL_RANK", "WORLD_SIZE")
"""By these torch.distributed goes: torchrun, DeepSpeed, Accelerate, operators of Kubernetes."""

_TASKS = "SLURM_STEP_NUM_TASKS SLURM_NTASKS"
_OMPI = "OMPI_COMM_WORLD"
_MV2 = "MV2_COMM_WORLD"
OTHERS = (
    RankVariables("openmpi", f"{_OMPI}_RANK", f"{_OMPI}_LOCAL_RANK", f"{_OMPI}_SIZE"),
    RankVariables("mvapich", f"{_MV2}_RANK", f"{_MV2}_LOCAL_RANK", f"{_MV2}_SIZE"),
    RankVariables("pals", "PALS_RANKID", "PALS_LOCAL_RANKID", "PMI_SIZE"),
    RankVariables(
        "mpich", "PMI_RANK", "MPI_LOCALRANKID PMI_LOCAL_RANK SLURM_LOCALID", "PMI_SIZE SLURM_NTASKS"
    ),
    RankVariables("pmix", "PMIX_RANK", "SLURM_LOCALID", _TASKS),
    RankVariables("slurm", "SLURM_PROCID", "SLURM_LOCALID", f"{_TASKS} SLURM_NPROCS"),
)

RANK_NAMES = (b"RANK=", b"RANKID=", b"SLURM_PROCID=")
"""One of these is in every environment that names a rank."""

MPI_RANKS = ("OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK")
WORLD_SIZES = ("WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", *_TASKS.split())
"""What says how many ranks there are, surest first, whichever says which rank it is."""

LOCAL_SIZES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS")
"""What says how many ranks of the job were started on this host, or by this agent."""

STARTED_BY = {
    "TORCHELASTIC_RUN_ID": "torchrun",
    "OMPI_COMM_WORLD_RANK": "mpirun",
    "PMI_RANK": "mpiexec",
    "SLURM_PROCID": "srun",
    "RAY_JOB_ID": "ray",
}
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
