"""What may leave a process: environment values by allow-list, secrets in text by pattern.

A report may be pasted into an incident and a bundle sent to a vendor, so nothing is kept by
default. Of the environment, only the variables listed here go on: where a rank stands in
its job, and the settings of torch, NCCL, Gloo, CUDA and the launcher. In command lines,
source excerpts and the output of tools, what looks like a secret is blanked: values with a telling
name, passwords inside URLs, tokens by their form (``secrets.toml``). A test holds these against the
plugins of detect-secrets, which is kept by others and knows further services.

What has no recognisable form is not found: a secret that is a bare word in a positional
argument stays. Nothing else is altered, so that quotes from evidence stay verbatim.
"""

import functools
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any

import msgspec

from whyhang.analyzer.facts import Record
from whyhang.analyzer.toml import tomllib

BLANK = "[redacted]"

_NAMES = """
    RANK LOCAL_RANK WORLD_SIZE LOCAL_WORLD_SIZE GROUP_RANK GROUP_WORLD_SIZE ROLE_RANK ROLE_NAME
    ROLE_WORLD_SIZE NODE_RANK NNODES CROSS_RANK CROSS_SIZE MASTER_ADDR MASTER_PORT
    XDG_CACHE_HOME
    CUDA_VISIBLE_DEVICES HIP_VISIBLE_DEVICES ROCR_VISIBLE_DEVICES NVIDIA_VISIBLE_DEVICES
    SLURM_JOB_ID SLURM_JOBID SLURM_STEP_ID SLURM_STEPID SLURM_PROCID SLURM_LOCALID SLURM_NODEID
    SLURM_NTASKS SLURM_NPROCS SLURM_NNODES SLURM_JOB_NUM_NODES SLURM_NODELIST SLURM_JOB_NODELIST
    SLURM_STEP_NODELIST SLURM_STEP_NUM_TASKS SLURM_STEP_NUM_NODES SLURM_TASKS_PER_NODE
    SLURM_STEP_TASKS_PER_NODE SLURM_GTIDS SLURM_NTASKS_PER_NODE SLURM_CPUS_PER_TASK
    SLURM_GPUS_ON_NODE SLURM_STEP_GPUS SLURM_RESTART_COUNT SLURMD_NODENAME SLURM_HET_SIZE
    SLURM_ARRAY_JOB_ID SLURM_ARRAY_TASK_ID
    OMPI_MCA_ess_base_jobid OMPI_MCA_ess_base_vpid OMPI_UNIVERSE_SIZE
    PMIX_RANK PMIX_NAMESPACE PMI_RANK PMI_SIZE PMI_LOCAL_RANK PMI_LOCAL_SIZE MPI_LOCALRANKID
    MPI_LOCALNRANKS MV2_COMM_WORLD_RANK MV2_COMM_WORLD_SIZE MV2_COMM_WORLD_LOCAL_RANK
    PALS_RANKID PALS_LOCAL_RANKID PALS_APID
    RAY_JOB_ID RAY_NODE_ID
"""
ENVIRONMENT_NAMES = frozenset(_NAMES.split())
"""Variables that are kept under exactly this name."""

ENVIRONMENT_PREFIXES = (
    "TORCHELASTIC_",
    "TORCH_",
    "PYTORCH_",
    "NCCL_",
    "RCCL_",
    "GLOO_",
    "CUDA_",
    "OMP_",
    "KMP_",
    "PET_",  # torchrun's own options as Kubernetes operators set them
    "OMPI_COMM_WORLD_",
    "FI_",
    "UCX_",
    "ACCELERATE_",
)
"""Families of variables that are kept."""

_SECRET_NAME = re.compile(
    r"TOKEN|SECRET|PASSW|CREDENTIAL|APIKEY|API_KEY|ACCESS_KEY|PRIVATE_KEY|AUTH", re.IGNORECASE
)


def allowed(name: str) -> bool:
    """Return whether the value of this environment variable may be kept."""
    listed = name in ENVIRONMENT_NAMES or name.startswith(ENVIRONMENT_PREFIXES)
    return listed and _SECRET_NAME.search(name) is None


def redact_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Keep what the allow-list names, in the order of names, without secrets in the values."""
    return {name: redact(environ[name]) for name in sorted(environ) if allowed(name)}


class _Secret(Record):
    """One form of secret, as ``secrets.toml`` has it."""

    marks: tuple[str, ...] = ()
    form: str = ""
    regex: str = ""
    exact: bool = False
    multiline: bool = False
    dotall: bool = False

    def compiled(self, parts: Mapping[str, str]) -> re.Pattern[str]:
        """Return its expression, with the parts that it names put in."""
        text = self.regex or rf"(?<![A-Za-z0-9])(?P<secret>{self.form})"
        while match := re.search(r"@(\w+)@", text):
            text = text.replace(match[0], parts[match[1]])
        flags = re.RegexFlag(0) if self.exact else re.IGNORECASE
        flags |= re.MULTILINE if self.multiline else 0
        return re.compile(text, flags | re.DOTALL if self.dotall else flags)


class _Table(Record):
    names: tuple[str, ...]
    parts: dict[str, str]
    secret: tuple[_Secret, ...]


@functools.cache
def secrets() -> tuple[tuple[tuple[str, ...], re.Pattern[str]], ...]:
    """Return the forms of secrets in the order in which they are looked for, with their marks."""
    text = files(__package__).joinpath("secrets.toml").read_text(encoding="utf-8")
    table = msgspec.convert(tomllib.loads(text), _Table)
    return tuple((one.marks or table.names, one.compiled(table.parts)) for one in table.secret)


@functools.cache
def _marks() -> tuple[str, ...]:
    return tuple(dict.fromkeys(mark for marks, _ in secrets() for mark in marks))


def redact(text: str) -> str:
    """Blank what looks like a secret; everything else stays as it is."""
    lower = text.lower()
    marks = {mark for mark in _marks() if mark in lower}
    if not marks:
        return text
    for its, pattern in secrets():
        if not marks.isdisjoint(its):
            text = pattern.sub(_blank, text)
    return text


def _blank(match: re.Match[str]) -> str:
    start, end = match.span("secret")
    whole = match.group()
    return whole[: start - match.start()] + BLANK + whole[end - match.start() :]


def redact_texts(value: Any, change: Callable[[str], str] = redact) -> Any:
    """Do the same to each text in plain data: lists, tables, what stands in them."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list | tuple):
        return [redact_texts(each, change) for each in value]
    if isinstance(value, dict):
        return {key: redact_texts(each, change) for key, each in value.items()}
    return value


def redact_bytes(data: bytes) -> bytes:
    """Do the same to the output of a tool; bytes that are no UTF-8 survive unchanged."""
    text = data.decode("utf-8", "surrogateescape")
    clean = redact(text)
    return data if clean is text else clean.encode("utf-8", "surrogateescape")


def redact_command(arguments: Sequence[str], limit: int = 2000) -> str:
    """Join a command line as a shell would take it, without secrets, cut to a sane length."""
    clean = redact(shlex.join(arguments))
    return clean if len(clean) <= limit else clean[: limit - 1] + "…"
