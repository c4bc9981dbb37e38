"""mpirun names the first process that ended with a non-zero exit code.

A Python exception, sys.exit, or a library that gave up. mpirun then ends the others. Its own
traceback or message stands earlier in the output.

The name is [[job],rank], or [job@app,rank] from Open MPI 5 on; the rank is that of
MPI_COMM_WORLD.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpirun-exit-code",
    category="rank-died",
    kind=Kind.CAUSE,
    title="Rank {rank} was the first to end with an error",
    when=log(
        r"Process name: \[\[\d+,\d+\],(?P<rank>\d+)\]",
        r"Process name: \[\S+@\d+,(?P<rank>\d+)\]",
        r"^(?P<node>[\w.-]+): rank (?P<rank>\d+) exited with code [1-9]\d*",
        blames=Blames.NAMED,
    ),
    means="This rank ended with an error and mpirun stopped the rest.",
    confidence=0.84,
    remedies=("Read what this rank printed last: its own error is the cause.",),
    next_steps=(
        "Run mpirun --tag-output (Open MPI 5: --output tag): it tells whose line is whose.",
    ),
    matches=(
        "x3005c0s7b0n0.hsn.example.org: rank 2 exited with code 1",
        "  Process name: [[62823,1],2]",
        "   Process name: [prterun-node7-20133@1,2]",
    ),
    misses=(
        "  HNP daemon   : [[16919,0],0] on node n0031",
        "  Exit code:    1",
    ),
    outranks=("launcher-exit-code",),
)
