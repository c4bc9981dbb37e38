"""The report of a batch system says with which code or signal the job ended.

LSF appends it to the job's output. It is that of the batch script, mostly of the last program in
it: codes over 128 are 128 plus a signal (134 aborted, 137 killed, 139 a segmentation fault).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="batch-exit-code",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The job's script ended with {how}",
    when=log(
        r"^Exited with (?P<how>exit code [1-9]\d*)\.",
        r"^Exited by (?P<how>signal \d+)\.",
    ),
    means=(
        "The batch system saw the job's script end with {how}. What its programs printed before "
        "tells why; a code over 128 is a signal, 137 most often a lack of memory."
    ),
    confidence=0.4,
    remedies=("Read what the programs of the job printed last.",),
    next_steps=("Ask the batch system for its record of the job: bhist -l JOB",),
    links=("https://www.ibm.com/docs/en/spectrum-lsf",),
    matches=(
        "Exited with exit code 139.",
        "Exited by signal 9.",
    ),
    misses=(
        "srun: error: n1: task 0: Exited with exit code 1",
        "Successfully completed.",
    ),
    gives_way=True,
)
