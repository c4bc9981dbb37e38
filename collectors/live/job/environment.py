"""The command line and environment of a process: which rank of which job they say it is.

/proc/PID/environ shows the environment as it was at exec. What a program sets for itself
later (``mp.spawn`` programs, Ray) is not in it, and a program that changes its own title
(setproctitle) overwrites it.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import pairwise

from whyhang.analyzer.facts import Record, whole
from whyhang.analyzer.job.launchers import OTHERS, TORCH, RankVariables


def split_zeros(data: bytes | None) -> tuple[str, ...]:
    """Split what the kernel separates by NUL (command line, environment)."""
    if not data:
        return ()
    return tuple(part.decode(errors="replace") for part in data.rstrip(b"\0").split(b"\0"))


def options(arguments: Iterable[str], names: Collection[str]) -> list[str]:
    """Return the values of options on a command line: ``--name value``, ``--name=value``.

    ``names`` are written with dashes; underscores in their places are the same.
    """
    words = [
        part
        for word in arguments
        for part in (word.split("=", 1) if word.startswith("-") else [word])
    ]
    return [value for name, value in pairwise(words) if name.replace("_", "-") in names]


def environment(data: bytes | None) -> dict[str, str]:
    """Read the environment as it was at exec; what a program sets later is not in it."""
    pairs = (item.partition("=") for item in split_zeros(data))
    return {name: value for name, equals, value in pairs if equals and name}


class StatedRank(Record):
    """Where a process stands in its job, as its environment says. ``by`` names who set it."""

    by: str
    rank: int | None = None
    local_rank: int | None = None
    world_size: int | None = None


def rank_of(environ: Mapping[str, str]) -> StatedRank | None:
    """Return which rank an environment belongs to, or None if it names none.

    RANK, by which torch.distributed goes (torchrun, DeepSpeed, Accelerate, Kubernetes
    operators, a shell loop), is asked first: a program under torchrun inside a Slurm step has
    both numbers. Then Lightning, Open MPI, MVAPICH, Cray PALS, MPICH and Intel MPI (PMI), PMIx
    and Slurm. Ray sets RANK at run time, so that it shows in no environment.
    """
    place = _named(environ, TORCH) or _lightning(environ)
    return place or next((other for each in OTHERS if (other := _named(environ, each))), None)


def _named(environ: Mapping[str, str], names: RankVariables) -> StatedRank | None:
    rank = _number(environ, *names.rank)
    if rank is None:
        return None
    elastic = names is TORCH and "TORCHELASTIC_RUN_ID" in environ
    return StatedRank(
        by="torchrun" if elastic else names.by,
        rank=rank,
        local_rank=_number(environ, *names.local_rank),
        world_size=_number(environ, *names.world_size),
    )


def _lightning(environ: Mapping[str, str]) -> StatedRank | None:
    """Read what Lightning gives to the local ranks 1, 2, … that it starts: no RANK.

    It sets NODE_RANK, LOCAL_RANK and WORLD_SIZE (lightning.fabric, subprocess_script.py). On
    a later node the global rank cannot be known from that.
    """
    local, node = _number(environ, "LOCAL_RANK"), _number(environ, "NODE_RANK")
    if local is None or node is None:
        return None
    rank, size = local if node == 0 else None, _number(environ, "WORLD_SIZE")
    return StatedRank(by="lightning", rank=rank, local_rank=local, world_size=size)


def _number(environ: Mapping[str, str], *names: str) -> int | None:
    """Read the first of these variables that holds a whole number."""
    numbers = (whole(environ.get(name)) for name in names)
    return next((number for number in numbers if number is not None), None)


def job_key(environ: Mapping[str, str], place: StatedRank) -> tuple[str, ...] | None:
    """Return what all ranks of one job have in common and no rank of another, or None.

    The run id of torchrun alone tells nothing: without ``--rdzv-id`` it is "none" everywhere.
    An address and port serve one job at a time, within one network namespace. A Slurm job
    number is added to it, so that two allocations that share a host stay apart.
    """
    slurm = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    if place.by in {"torchrun", "env", "lightning"}:
        address, port = environ.get("MASTER_ADDR"), environ.get("MASTER_PORT")
        if not address or not port:
            return None
        return ("rendezvous", address, port, environ.get("TORCHELASTIC_RUN_ID", ""), slurm)
    namespace = environ.get("PMIX_NAMESPACE") or environ.get("OMPI_MCA_ess_base_jobid")
    if namespace:
        return ("pmix", namespace)
    if "PALS_APID" in environ:
        return ("pals", environ["PALS_APID"])
    if slurm:
        step = environ.get("SLURM_STEP_ID") or environ.get("SLURM_STEPID") or ""
        return ("slurm", slurm, step)
    return None
