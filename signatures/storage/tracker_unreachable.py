"""A call to an experiment tracker gave up on the rank that logs.

Logging runs on rank 0; init, finish and the upload of artifacts are synchronous and wait for
the network. A retry loop in the background is another matter: tracker-retrying.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="tracker-unreachable",
    category="network-io-blocked",
    kind=Kind.CAUSE,
    title="The experiment tracker does not answer {who}",
    when=log(
        r"CommError: Run initialization has timed out after",
        r"wandb: ERROR Error communicating with wandb process",
        r"API request to https?://\S+ failed with exception HTTPS?ConnectionPool",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A tracker (Weights & Biases, MLflow) could not make a call over the network. It usually "
        "runs on rank 0 only, so rank 0 falls behind while the others wait in a collective."
    ),
    confidence=0.6,
    remedies=(
        "WANDB_MODE=offline (wandb sync later), or a longer WANDB_INIT_TIMEOUT.",
        (
            "Start the tracker before the first collective; upload artifacts outside of the "
            "training loop."
        ),
    ),
    next_steps=("curl -sI https://api.wandb.ai  # on that host",),
    matches=(
        "wandb.errors.CommError: Run initialization has timed out after 90.0 sec.",
        "wandb: ERROR Error communicating with wandb process",
        (
            "mlflow.exceptions.MlflowException: API request to "
            "https://mlflow.local/api/2.0/mlflow/runs/log-batch failed with exception "
            "HTTPSConnectionPool"
        ),
    ),
    misses=(
        "wandb: Synced 5 W&B file(s), 0 media file(s)",
        "wandb: Network error (ConnectTimeout), entering retry loop.",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
