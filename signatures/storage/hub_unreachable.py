"""A rank cannot reach a hub, a bucket or another web service.

Compute nodes often have no way to the internet. A model or dataset that is already in the cache
may still trigger a request. When one rank retries for minutes, the others run into their
timeout.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="hub-unreachable",
    category="network-io-blocked",
    kind=Kind.CAUSE,
    title="{who} could not reach {host} over the network",
    when=log(
        (
            r"HTTPS?ConnectionPool\(host='(?P<host>[^']+)', port=\d+\): (?:Read timed out|Max "
            r"retries exceeded)"
        ),
        r"We couldn't connect to '(?P<host>[^']+)' to load",
        (
            r"(?:EndpointConnectionError|ConnectTimeoutError|ReadTimeoutError): (?:Could not "
            r"connect to the|Connect timeout on|Read timeout on) endpoint URL: "
            r"\"(?P<host>[^\"]+)\""
        ),
        r"LocalEntryNotFoundError: .{0,80}(?:on the (?P<host>Hub)|[Cc]heck your connection)",
        r"Cannot reach (?P<host>https?://\S+): offline mode is enabled",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A call to {host} failed or took too long. If one rank downloads while the others go on "
        "to a collective, they wait for it; and a call without a timeout can hang by itself."
    ),
    confidence=0.75,
    remedies=(
        (
            "Download beforehand and set HF_HUB_OFFLINE=1 (and HF_DATASETS_OFFLINE=1), or use a "
            "local path."
        ),
        (
            "Do downloads on one rank before init_process_group, or give the group a timeout "
            "that allows for it."
        ),
        "Set a proxy, or a short timeout for requests.",
    ),
    next_steps=("curl -sI https://huggingface.co  # on that host",),
    links=("https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables",),
    matches=(
        (
            "huggingface_hub.utils._errors.LocalEntryNotFoundError: An error happened while "
            "trying to locate the file on the Hub and we cannot find the requested files in the "
            "local cache."
        ),
        (
            "requests.exceptions.ReadTimeout: "
            "(ReadTimeoutError(\"HTTPSConnectionPool(host='huggingface.co', port=443): Read "
            "timed out. (read timeout=10)\"), '(Request ID: 1)')"
        ),
        (
            "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', "
            "port=443): Max retries exceeded with url: /bert/resolve/main/config.json"
        ),
        (
            "OSError: We couldn't connect to 'https://huggingface.co' to load this file, "
            "couldn't find it in the cached files"
        ),
        (
            "botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: "
            '"https://bucket.s3.amazonaws.com/"'
        ),
        (
            "huggingface_hub.errors.OfflineModeIsEnabled: Cannot reach "
            "https://huggingface.co/api/models: offline mode is enabled. To disable it, please "
            "unset"
        ),
    ),
    misses=(
        (
            "requests.exceptions.HTTPError: 404 Client Error: Not Found for url: "
            "https://huggingface.co/x"
        ),
        (
            "WARNING urllib3.connectionpool: Retrying (Retry(total=2, connect=None, read=None, "
            "redirect=None, status=None)) after connection broken by 'NewConnectionError'"
        ),
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
