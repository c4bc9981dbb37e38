"""srun started the processes, but this MPI cannot talk to it.

Open MPI was built without Slurm's PMI or PMIx support, or srun was called with the wrong --mpi
type. Each process then fails, or becomes a world of one rank of its own.

All ranks are alike; the start-up line is at fault.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-started-without-launcher",
    category="init-world-size-mismatch",
    kind=Kind.CAUSE,
    title="MPI processes were started without a launcher that MPI understands",
    when=log(
        r'application appears to have been direct launched using "srun"',
        r"OMPI was not built with SLURM's PMI support",
        r"PMI2? init failed: \d+|PMI_Init returned \d+|PMI_Get_appnum returned -1",
    ),
    means=(
        "The processes did not find each other, because the launcher and this MPI do not speak "
        "the same protocol."
    ),
    confidence=0.9,
    remedies=(
        (
            "Start with mpirun inside the allocation, or with srun --mpi=pmix (or pmi2) and an "
            "MPI built for it."
        ),
    ),
    next_steps=("srun --mpi=list; ompi_info | grep -i pmi",),
    matches=(
        'The application appears to have been direct launched using "srun",',
        "but OMPI was not built with SLURM's PMI support and therefore cannot",
        "MPIR_pmi_init(142)...: PMI_Get_appnum returned -1",
    ),
    misses=("srun: job 4711 queued and waiting for resources",),
    outranks=("launcher-exit-code",),
)
