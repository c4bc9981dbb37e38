"""When others will end a job that hangs: torch's watchdog, Slurm.

``SLURM_JOB_END_TIME`` is in the environment of Slurm's jobs since 22.05. The time-out of a process
group is an argument in the program; it shows on the command line of common trainers, in the
variables of some launchers, and in the recorder dumps of an earlier run. Else it is torch's
default, of NCCL 10 minutes (torch/distributed/constants.py).
"""

import re
import time
from collections.abc import Iterable, Mapping

from whyhang.analyzer.facts import whole

NCCL_DEFAULT = 600.0
_OPTIONS = (
    (re.compile(r"--?ddp[-_]timeout[= ](\d{1,7})\b"), 1.0),
    (re.compile(r"--distributed-timeout-minutes[= ](\d{1,5})\b"), 60.0),
    (re.compile(r"--(?:dist|nccl|comm)[-_]timeout(?:[-_]s(?:econds)?)?[= ](\d{1,7})\b"), 1.0),
)
_VARIABLES = (("DEEPSPEED_TIMEOUT", 60.0), ("TORCH_NCCL_TIMEOUT_SEC", 1.0), ("NCCL_TIMEOUT", 1.0))


def killed_after(
    arguments: Iterable[str],
    environ: Mapping[str, str],
    *,
    nccl: bool,
    recorded: Iterable[float] = (),
) -> float | None:
    """Return after how many seconds a watchdog gives a collective up; None where that is open.

    ``recorded`` are time-outs that recorder dumps of the program show.
    """
    command = " ".join(arguments)
    limits = [float(m[1]) * unit for shape, unit in _OPTIONS for m in [shape.search(command)] if m]
    limits += [(whole(environ.get(name)) or 0) * unit for name, unit in _VARIABLES]
    limits += recorded
    limits = [seconds for seconds in limits if seconds > 0]
    return min(limits) if limits else NCCL_DEFAULT if nccl else None


def ends_in(environ: Mapping[str, str]) -> float | None:
    """Return in how many seconds the allocation of a process ends; None where it has no end."""
    end = whole(environ.get("SLURM_JOB_END_TIME"))
    return None if end is None else end - time.time()
