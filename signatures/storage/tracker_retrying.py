"""The client of an experiment tracker says that it tries again.

A process or thread of its own does so, so in the middle of a run it holds nobody up. In init, in
finish and in the upload of artifacts the program waits for it, and with rank 0 all others do.
Nothing is wrong where the client says later that it got through.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="tracker-retrying",
    category="network-io-blocked",
    kind=Kind.CAUSE,
    title="The experiment tracker is not reached and tried again",
    when=log(r"wandb: (?:ERROR |WARNING )?Network error \(\w+\), entering retry loop"),
    unless=log(
        r"wandb: (?:\w+ )?Network error resolved after",
        r"wandb: Synced \d+ W&B file",
        r"wandb: (?:\S+ )?Synced \S+: https?://",
    ),
    means=(
        "The tracker's client retries a call over the network. If the program waits for it, which "
        "it does in init, finish and uploads, the rank that logs falls behind all others."
    ),
    confidence=0.45,
    remedies=("WANDB_MODE=offline (wandb sync later), and see whether the job then moves.",),
    next_steps=(
        "curl -sI https://api.wandb.ai  # on that host",
        "py-spy dump --pid PID  # of rank 0: is it inside wandb?",
    ),
    matches=(
        "wandb: Network error (ConnectTimeout), entering retry loop.",
        "wandb: ERROR Network error (ReadTimeout), entering retry loop.",
    ),
    misses=(
        "wandb: Synced 5 W&B file(s), 0 media file(s)",
        "wandb: Network error resolved after 0:00:12.345678, resuming normal operation.",
        "wandb: Synced lunar-dawn-12: https://wandb.ai/acme/lm/runs/1a2b3c",
    ),
    gives_way=True,
)
