"""The batch system ended the job for using too much memory (LSF, PBS, HTCondor).

The job asked for less memory than it used, summed over all its processes on a node: ranks and
their DataLoader workers. The processes die by SIGKILL and can say nothing.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="batch-memory-limit",
    category="rank-oom-killed",
    kind=Kind.CAUSE,
    title="The batch system ended the job at its memory limit",
    when=log(
        r"TERM_(?:MEMLIMIT|SWAP): job killed",
        r"PBS: job killed: (?:v?mem|pmem|pvmem|cput?mem) \S+ exceeded limit",
        r"Cgroup mem(?:ory)? limit exceeded",
        r"[Jj]ob .{0,40}(?:held|removed|aborted).{0,40}memory usage exceeded",
    ),
    means=(
        "The job used more memory on a node than it had asked for, and the batch system killed "
        "it. Which of its processes grew, this line does not say."
    ),
    confidence=0.9,
    remedies=(
        "Ask for more memory, or load less at once and use fewer DataLoader workers.",
        "Look for growth of host memory over the run.",
    ),
    next_steps=("Ask the batch system: bhist -l JOB, qstat -fx JOB or condor_history -l JOB",),
    links=("https://www.ibm.com/docs/en/spectrum-lsf",),
    matches=(
        "TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",
        "=>> PBS: job killed: mem 134217728kb exceeded limit 100663296kb",
        "-8<-- Cgroup mem limit exceeded: oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null)",
        "Job 4711 was held: memory usage exceeded request_memory",
    ),
    misses=(
        "=>> PBS: job killed: walltime 259217 exceeded limit 259200",
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
    ),
    outranks=("launcher-exit-code", "container-exit-137", "batch-exit-code"),
)
