"""A process lacks the variables that a launcher would have set.

Started with plain python instead of torchrun, under srun without a mapping from SLURM_PROCID to
RANK, in a notebook, or through ssh or sudo that drops the environment.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="environment-variable-missing",
    category="not-distributed",
    kind=Kind.CAUSE,
    title="{variable} is not set: the script was not started by a launcher",
    when=log(
        (
            r"Error initializing torch\.distributed using env:// rendezvous: environment "
            r"variable (?P<variable>\w+) expected, but not set"
        ),
    ),
    means=(
        "init_process_group reads rank, world size and master from the environment, and "
        "{variable} is missing there. The process fails at once; if others were started "
        "properly, they wait for it."
    ),
    confidence=0.9,
    remedies=(
        (
            "Start the script with torchrun --nproc-per-node N script.py, or set RANK, "
            "WORLD_SIZE, MASTER_ADDR, MASTER_PORT."
        ),
        (
            "Under srun: export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID "
            "WORLD_SIZE=$SLURM_NTASKS in the task."
        ),
    ),
    next_steps=("env | grep -E 'RANK|WORLD|MASTER'  # in the process",),
    links=("https://pytorch.org/docs/stable/distributed.html#environment-variable-initialization",),
    matches=(
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable RANK expected, but not set"
        ),
        (
            "ValueError: Error initializing torch.distributed using env:// rendezvous: "
            "environment variable MASTER_ADDR expected, but not set"
        ),
    ),
    misses=("WANDB_MODE: environment variable WANDB_API_KEY expected, but not set",),
)
