"""An agent of torch.distributed.rpc lost the connection to another worker.

"RPC agent for A encountered error when ... B": the worker B went away, or its host cannot be
reached (``tensorpipe_agent.cpp``). Who prints this is a victim. At the end of a program that does
not wait in ``rpc.shutdown()`` the same line appears with "eof", and nothing is wrong.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rpc-peer-gone",
    category="rank-died",
    kind=Kind.CONSEQUENCE,
    title="An RPC worker lost the connection to {peer}",
    when=log(
        (
            r"RPC agent for \S+ encountered error when (?:sending outgoing|reading incoming) "
            r"(?:request|response)(?: #\d+)? (?:to|from) (?P<peer>[^\s:]+): .*"
            r"(?:Connection (?:reset|refused)|Broken pipe|timed out)"
        ),
    ),
    means=(
        "The worker at the other end ended or was ended, or the network between was cut. Its own "
        "first error is the cause."
    ),
    confidence=0.6,
    next_steps=("Read the output of the worker that all others lost, from its end upwards.",),
    links=("https://pytorch.org/docs/stable/rpc.html",),
    matches=(
        (
            "[W tensorpipe_agent.cpp:916] RPC agent for 3 encountered error when sending outgoing "
            "request #0 to 0: async error on socket: Connection reset by peer (this error "
            "originated at tensorpipe/transport/shm/connection_impl.cc:187)"
        ),
        (
            "[W tensorpipe_agent.cpp:940] RPC agent for worker36 encountered error when reading "
            "incoming response from ps0: async error on socket: Connection reset by peer (this "
            "error originated at tensorpipe/transport/uv/connection_impl.cc:132)"
        ),
    ),
    misses=(
        (
            "[W tensorpipe_agent.cpp:726] RPC agent for worker1 encountered error when reading "
            "incoming request from worker0: eof (this error originated at "
            "tensorpipe/transport/shm/connection_impl.cc:259)"
        ),
    ),
)
