"""A Python call could not resolve a host name.

The name stands in the lines around it. If it is the rendezvous host, the process never joins
the job; if it is a hub, a bucket or a tracker, only that call fails, and other ranks wait if it
was made on one rank.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="name-resolution-failed",
    category="init-hostname-resolution",
    kind=Kind.CAUSE,
    title="A host name could not be resolved on {who}",
    when=log(
        (
            r"socket\.gaierror: \[Errno -\d+\] (?:Name or service not known|Temporary failure in "
            r"name resolution|No address associated with hostname)"
        ),
        (
            r"host not found: (?:Name or service not known|Temporary failure in name resolution|"
            r"No address associated with hostname)"
        ),
        blames=Blames.SPEAKER,
    ),
    means=(
        "Python asked for the address of a host and got none. At start-up that is usually the "
        "master's name; later mostly a download or a tracker."
    ),
    confidence=0.6,
    remedies=(
        "Check the name with getent hosts on that node, and DNS inside the container.",
        "Use an address, or a name that every node resolves.",
    ),
    next_steps=(
        "getent hosts NAME  # on that node",
        "cat /etc/resolv.conf  # in the container",
    ),
    matches=(
        "socket.gaierror: [Errno -2] Name or service not known",
        "socket.gaierror: [Errno -3] Temporary failure in name resolution",
        "ValueError: host not found: Name or service not known",
    ),
    misses=(
        "socket.timeout: timed out",
        "OSError: [Errno 98] Address already in use",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
