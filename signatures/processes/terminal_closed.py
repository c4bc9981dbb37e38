"""torchrun was ended by SIGHUP because its terminal went away.

Typical after an ssh connection broke or a laptop closed. nohup does not help here, since
torchrun installs a handler of its own for SIGHUP.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="terminal-closed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The launcher got SIGHUP: its terminal or ssh session was closed",
    when=log(
        r"SignalException: Process \d+ got signal: 1\b",
        r"Received (?:1|Signals\.SIGHUP) death signal, shutting down workers",
    ),
    means=(
        "torchrun ends its workers when the terminal that started it goes away. Nobody in the "
        "job is to blame."
    ),
    confidence=0.9,
    remedies=(
        "Start the job in tmux or screen, as a systemd unit or through the scheduler.",
        "Resume from the last checkpoint; nothing is wrong with the program.",
    ),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4011 got "
            "signal: 1"
        ),
        (
            "WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, "
            "shutting down workers"
        ),
        "Received Signals.SIGHUP death signal, shutting down workers",
    ),
    misses=(
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4011 got "
            "signal: 15"
        ),
    ),
)
