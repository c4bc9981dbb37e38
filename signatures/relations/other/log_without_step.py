"""The logs of the ranks end before the first step, and say nothing of why.

Something was printed at the start and nothing of a step, a loss or an orderly end; no error
either. A job that waits in init_process_group, in torchrun's rendezvous or in its first
collective leaves exactly such logs, and so does one whose log was copied a minute after the
start. Which of them it is, only the processes tell, or logs with more in them.
"""

from whyhang.analyzer.match import Kind, Signature, quiet_logs

SIGNATURE = Signature(
    id="log-without-step",
    category="unknown",
    kind=Kind.CAUSE,
    level="fallback",
    title="The logs end at the start of the job and do not say what it waits for",
    when=quiet_logs(started=False),
    means=(
        "There is no step, no result, no error and no end in the logs. Waiting for a rank in "
        "init_process_group, in torchrun's rendezvous or in the first collective looks so."
    ),
    confidence="hint",
    remedies=(
        "If it is still there, look at it: whyhang PID, of any process of the job on each host.",
    ),
    next_steps=(
        "whyhang PID  # any process of the job",
        (
            "LOGLEVEL=INFO TORCH_CPP_LOG_LEVEL=INFO TORCH_DISTRIBUTED_DEBUG=INFO NCCL_DEBUG=INFO  "
            "# start again with these: then the logs say how far each rank came"
        ),
    ),
    last_resort=True,
)
