"""A library retries a request to a web service.

urllib3, huggingface_hub and cloud clients wait longer after every attempt, up to minutes in
all. It is a possibility and no more: background uploads retry like this in healthy jobs too.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="http-retries",
    category="network-io-blocked",
    kind=Kind.CAUSE,
    title="{who} retried a request over the network",
    when=log(
        r"Retrying \(Retry\(total=\d+, connect=\w+, read=\w+",
        r"Retrying in \d+s \[Retry \d+/\d+\]",
        r"Trying to resume download\.\.\.",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A library retries an HTTP request, with growing pauses. On its own that is harmless; if "
        "the others wait for this rank, it is why."
    ),
    confidence=0.35,
    remedies=(
        "Download beforehand and work offline (HF_HUB_OFFLINE=1).",
        "Check proxy and network of that host.",
    ),
    next_steps=("curl -sI URL  # the address that the line names, from that host",),
    matches=(
        (
            "WARNING:urllib3.connectionpool:Retrying (Retry(total=2, connect=None, read=None, "
            "redirect=None, status=None)) after connection broken by 'NewConnectionError'"
        ),
        "Retrying in 8s [Retry 4/5].",
        "Trying to resume download...",
    ),
    misses=("Retrying step 100",),
)
