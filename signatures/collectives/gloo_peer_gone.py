"""A gloo peer closed its connection: that process died or gave up first.

The address is a port of the other process and does not tell its rank. The rank that prints this
is a victim. The one that printed no such line, or printed another error before, is the one to
look at.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="gloo-peer-gone",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="A gloo connection was closed by the other rank",
    when=log(
        (
            r"pair\.cc:\d+\] (?:Connection closed by peer|Read error|Write error|Socket "
            r"closed|Socket unexpectedly closed|writev) \["
        ),
        r"Connection closed by peer \[[\da-fA-F.:]+\]:\d+",
        r"Read error \[[\da-fA-F.:]+\]:\d+: Connection reset by peer",
        r"writev \[[\da-fA-F.:]+\]:\d+: Broken pipe",
    ),
    means=(
        "The process at the other end went away: it failed or was killed, or it closed its "
        "connections after its own timeout. Its own first error is the cause."
    ),
    confidence=0.7,
    next_steps=(
        "Find the rank whose log ends first or holds another error",
        "Look at the launcher's table of exit codes",
    ),
    matches=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection "
            "closed by peer [10.0.0.7]:35612"
        ),
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:537] Read error "
            "[127.0.0.1]:2203: Connection reset by peer. This is typically caused by a remote "
            "worker hanging or bugs in the application."
        ),
        "RuntimeError: writev [10.0.0.7]:41000: Broken pipe",
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:598] Connection "
            "closed by peer [::1]:4711. This is typically caused by a remote worker crashing."
        ),
    ),
    misses=(
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "socketProgress: Connection closed by remote peer 10.1.0.4<43210>",
    ),
)
