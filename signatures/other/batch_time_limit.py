"""The batch system ended the job at its time limit (LSF, PBS, Torque, Grid Engine).

If the log shows steps up to the end, it was only long. If it had been silent for hours, it
hung, and this line is the end and not the cause.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="batch-time-limit",
    category="slow-not-hung",
    kind=Kind.CONSEQUENCE,
    title="The batch system ended the job at its time limit",
    when=log(
        r"TERM_(?:RUNLIMIT|CPULIMIT|PROCESSLIMIT): job killed",
        r"PBS: job killed: (?:walltime|cput) \S+ exceeded limit",
        r"[Jj]ob exceeded its walltime limit|job exceeded wallclock limit",
        r"exceeded hard wallclock time",
    ),
    means=(
        "The job used up its time. A job that hung ends like this as well, so what its log did "
        "before is what counts."
    ),
    confidence=0.5,
    next_steps=("Compare the time of the last training step with the end",),
    matches=(
        "TERM_RUNLIMIT: job killed after reaching LSF run time limit.",
        "=>> PBS: job killed: walltime 259217 exceeded limit 259200",
        "Job exceeded its walltime limit. Job was aborted",
        "05/12/2026 10:00:00|worker|n7|W|job 4711.1 exceeded hard wallclock time - initiate",
    ),
    misses=("TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.",),
)
