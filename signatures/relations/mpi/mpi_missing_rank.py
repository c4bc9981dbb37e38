"""One MPI rank is elsewhere while the others wait for it inside an MPI call.

The waiting ranks spin in opal_progress at full CPU, so CPU use says nothing here. The rank
that is in no MPI call, or has ended, is the one to look at.
"""

from whyhang.analyzer.match import KNOWN_LOCAL_CAUSES, Kind, Signature, WaitKind, late

SIGNATURE = Signature(
    id="mpi-missing-rank",
    category="mpi-missing-rank",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} {has} not come to the MPI call of the others: {does}{at}",
    when=late(besides=KNOWN_LOCAL_CAUSES, while_in=(WaitKind.MPI,)),
    means="{others} {wait} inside {call}; {who} is in no MPI call ({does}{at}).",
    confidence="strong",
    remedies=("Look at {where}: why {is} {who} there and not in the MPI call?",),
    next_steps=("gdb -p {pid} -batch -ex 'thread apply all bt'  # of {who}",),
    explains=("missing-rank-in-collective",),
)
