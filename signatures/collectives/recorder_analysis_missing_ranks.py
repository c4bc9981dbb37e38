"""torch's own analysis of flight-recorder dumps names ranks that did not join a collective.

``fr_trace`` (``torchfrtrace``) prints a block for each collective that does not match: "Not all
ranks joining collective, sequence number: N", the group, the call, and the missing ranks as a
set (``flight_recorder/components/utils.py``; torch 2.5 to 2.6 wrote a colon after "collective").
They are global ranks. Only ranks whose dumps it had are counted, so a missing one was alive.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="recorder-analysis-missing-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Rank {ranks} did not join a collective, as torch's analysis of the dumps says",
    when=log(
        r"missing ranks: \{(?P<ranks>\d+(?:, \d+)*)\}",
        blames=Blames.NAMED,
    ),
    means=(
        "The recorder dumps show this collective on some ranks of the group and not on rank "
        "{ranks}: they were somewhere else in the code when the dumps were written."
    ),
    confidence=0.85,
    remedies=("Look at what these ranks recorded last, and at their stacks.",),
    next_steps=(
        "whyhang DUMPS/  # the dumps themselves: where the missing ranks stood instead",
        "py-spy dump --pid PID  # on the missing ranks, while the job hangs",
    ),
    links=("https://pytorch.org/tutorials/unstable/flight_recorder_tutorial.html",),
    matches=("missing ranks: {3, 4, 5, 6, 7}", "INFO:root:missing ranks: {0}"),
    misses=("expected ranks: {0, 1, 2, 3}", "missing ranks: set()"),
)
