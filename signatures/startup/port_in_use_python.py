"""A Python server found its port taken.

The line does not say what the server is for. Multi-process serving engines, DeepSpeed and Ray
open control ports beside torch's store; TensorBoard, Prometheus and debuggers do too, and their
failure stops nobody else.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="port-in-use-python",
    category="init-port-in-use",
    kind=Kind.CAUSE,
    title="A server in {who} could not open its port because it is taken",
    when=log(
        (
            r"OSError: \[Errno 98\] (?:error while attempting to bind on address .*: "
            r")?[Aa]ddress already in use"
        ),
        r"EADDRINUSE: address already in use :::",
        blames=Blames.SPEAKER,
    ),
    means=(
        "Some server of this process wants a port that another process holds. If it is a "
        "rendezvous or parameter server the job cannot start; a metrics page or a dashboard can "
        "usually do without."
    ),
    confidence=0.5,
    remedies=(
        "Read the traceback above: which component wants the port? Give it another one.",
        "End the left-over process of an earlier run that holds it.",
    ),
    next_steps=("ss -ltnp  # on that host",),
    matches=(
        "OSError: [Errno 98] Address already in use",
        "[rank1]: OSError: [Errno 98] Address already in use",
        "Error: listen EADDRINUSE: address already in use :::8265",
    ),
    misses=(
        (
            "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 "
            "(errno: 98 - Address already in use)."
        ),
        "OSError: [Errno 99] Cannot assign requested address",
    ),
)
