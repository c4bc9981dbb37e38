"""Ranks on Ascend NPUs did not connect with each other in time.

HCCL links two ranks at their first collective, within HCCL_CONNECT_TIMEOUT (two minutes). A rank
that comes to that collective later than this, or not at all, makes the others fail like so.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="hccl-socket-timeout",
    category="init-missing-rank",
    kind=Kind.CONSEQUENCE,
    title="A rank did not connect to others of HCCL in time",
    when=log(
        r"Getting socket times out\. Reason: Remote Rank did not send the data in time",
        r"Communication_Error_Get_Socket",
    ),
    means=(
        "At their first collective, ranks on NPUs connect with each other. One of them did not "
        "come there within the limit: it is still busy with something else, or it has failed."
    ),
    confidence=0.6,
    remedies=(
        "If one rank prepares data while the others wait, raise HCCL_CONNECT_TIMEOUT everywhere.",
    ),
    next_steps=("Find the rank without this error, or with another one before it",),
    links=("https://github.com/Ascend/pytorch",),
    matches=(
        (
            "EI0006: [PID: 129236] 2025-04-08-18:07:20.444.436 Getting socket times out. Reason: "
            "Remote Rank did not send the data in time. Please check the reason for the rank "
            "being stuck"
        ),
        "[ERROR] HCCL Communication_Error_Get_Socket(EI0006)",
    ),
    misses=("socket.timeout: timed out", "Getting socket options"),
)
