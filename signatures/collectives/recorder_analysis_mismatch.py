"""torch's own analysis of flight-recorder dumps finds calls of one collective that differ.

``fr_trace`` (``torchfrtrace``) prints "Collective sequence number: N has errors" and "error msg:
Culprit rank R; Error type: ..." for each rank whose call does not match that of the first rank it
looked at (``flight_recorder/components/types.py``). So the rank it names is one of two that
differ, and which of them is wrong is not known. A state that differs is no mismatch: one rank has
finished what another one has not.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="recorder-analysis-mismatch",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="Ranks call different collectives, as torch's analysis of the dumps says",
    when=log(
        (
            r"Culprit rank (?P<other>\d+); Error type: (?:COLLECTIVE_TYPE|SIZE_OR_SYNTAX"
            r"|COLLECTIVE_DTYPE)_MISMATCH"
        ),
        r"Input/output mismatch in the collective sequence number: \d+",
    ),
    means=(
        "At one place of the sequence the ranks of a group called different operations, or with "
        "different shapes or types. torch compares all with the first rank, so the one that it "
        "names need not be the wrong one."
    ),
    confidence=0.85,
    remedies=("Compare the stacks that the dumps hold for this call, on both sides.",),
    next_steps=("whyhang DUMPS/  # the dumps themselves: which ranks called what",),
    links=("https://pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",),
    matches=(
        (
            "error msg: Culprit rank 1; Error type: COLLECTIVE_TYPE_MISMATCH, Expected collective "
            "type: 'all_reduce' does not match found collective type: 'all_gather'"
        ),
        "error msg: Culprit rank 0; Error type: SIZE_OR_SYNTAX_MISMATCH",
        "Input/output mismatch in the collective sequence number: 12",
    ),
    misses=("error msg: Culprit rank 2; Error type: COLLECTIVE_STATE_MISMATCH, scheduled",),
)
