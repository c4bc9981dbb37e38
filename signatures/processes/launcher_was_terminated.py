"""torchrun ends its workers because it received a signal itself.

The signal comes from outside of the program. When the job had been silent for long, the cause
of the silence lies before; otherwise look at the scheduler's record.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="launcher-was-terminated",
    category="rank-died",
    kind=Kind.CAUSE,
    title="The launcher was told to stop from outside (signal {signal})",
    when=log(
        r"SignalException: Process \d+ got signal: (?P<signal>2|3|10|12|15)\b",
        (
            r"Received (?P<signal>2|15|Signals\.SIGTERM|Signals\.SIGINT) death signal, shutting "
            r"down workers"
        ),
    ),
    means=(
        "Someone or something sent a signal to torchrun: a scheduler that cancels, preempts or "
        "reaches a limit, an operator, or another node's launcher. If the job hung before, this "
        "only ended it."
    ),
    confidence=0.4,
    remedies=(
        "Ask the scheduler why the job ended (time limit, preemption, cancelled, node drained).",
    ),
    next_steps=(
        "sacct -j JOB -o JobID,State,ExitCode,Reason,End",
        "kubectl describe pod POD",
    ),
    links=("https://pytorch.org/docs/stable/elastic/run.html",),
    matches=(
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 17528 got "
            "signal: 15"
        ),
        (
            "W1121 02:13:11.369000 17528 torch/distributed/elastic/agent/server/api.py:753] "
            "Received 15 death signal, shutting down workers"
        ),
        (
            "WARNING:torch.distributed.elastic.agent.server.api:Received Signals.SIGTERM death "
            "signal, shutting down workers"
        ),
    ),
    misses=(
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 4011 got "
            "signal: 1"
        ),
    ),
)
