"""A rank came to the end of its program while the others still called collectives.

Its connections close as it exits, and the others report a lost peer, which reads like a network
fault or a crash. But the rank that is gone ended in good order: it skipped the call, had fewer
batches, or left the loop under a condition that only it met.
"""

from whyhang.analyzer.match import Kind, Signature, went_silent

SIGNATURE = Signature(
    id="rank-finished-early",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} had finished when {others} still waited in a collective",
    when=went_silent(finished=True),
    means=(
        "{who} ended without an error and closed its connections; {others} lost a peer in the "
        "middle of a call. The ranks do not make the same calls."
    ),
    confidence="possible",
    remedies=(
        "Find the call that {who} leaves out: a condition on the rank, or fewer batches.",
        "Let every rank make the same collective calls; a barrier at the end shows who is early.",
    ),
    next_steps=("TORCH_DISTRIBUTED_DEBUG=DETAIL on the next run names calls that differ",),
)
