"""PyTorch's own desync report names ranks that did not join a collective.

With TORCH_NCCL_DESYNC_DEBUG=1 (or DETAIL) every rank records its last collective in the store,
and a rank that times out prints who never joined. Ranks that 'joined but didn't finish' are the
victims and are not meant here. The numbers are ranks within the group, which are global ranks
for the default group; a report of a smaller group must be translated first.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="desync-lagging-ranks",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    title="Ranks {ranks} fell behind the others, says PyTorch's desync report",
    when=log(
        r"ranks \[(?P<ranks>\d+(?:, \d+)*)\] are the lagging ranks that caused this timeout",
        (
            r"\[(?P<ranks>\d+(?:, \d+)*)\] finished collective #\d+, but didn't join collective "
            r"#(?P<seq>\d+)"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "After the timeout PyTorch compared the last collective that each rank recorded in the "
        "store. The named ranks did not join the one in which the others wait."
    ),
    confidence=0.75,
    remedies=(
        "Look at what the named ranks were doing at that time: their log, their stacks.",
        "If one of them is dead, its own first error is the cause.",
    ),
    next_steps=(
        "py-spy dump --pid PID  # on the named ranks",
        "Compare flight-recorder dumps (TORCH_FR_BUFFER_SIZE=2000) of all ranks",
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "\t - To our best knowledge, ranks [1, 5] are the lagging ranks that caused this "
            "timeout. They never joined any collectives"
        ),
        "\t     [3] finished collective #41, but didn't join collective #42 (count from 1)",
    ),
    misses=(
        "\t   - [0, 1, 2] joined but didn't finish collective #42 (count from 1)",
        (
            "\t - To our best knowledge, the lagging/dead/mismatched ranks that caused the "
            "desync are:"
        ),
    ),
)
