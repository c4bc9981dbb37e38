"""All ranks but few waited in vain, and those few speak of something else.

gloo's messages do not say for whom a rank waited. Where all ranks write to the logs at hand, it is
the one that did not wait: it left the loop, skipped the call or does something else.
"""

from whyhang.analyzer.match import Kind, Signature, went_on

SIGNATURE = Signature(
    id="rank-not-waiting",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{who} did not come where {others} waited",
    when=went_on(
        r"Timed out waiting \d+ms for (?P<direction>recv|send) operation to complete",
    ),
    means=(
        "{others} waited for data until the limit. {who} also writes to these logs and says "
        "nothing of waiting, so it was elsewhere: it had left the loop or skipped the call."
    ),
    confidence="possible",
    remedies=(
        "Read what {who} does last: which call did it skip, or why had it ended its loop?",
        "Let every rank make the same collective calls, or agree on leaving the loop first.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
    matches=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
            "out waiting 1800000ms for recv operation to complete"
        ),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out "
            "waiting 4000ms for send operation to complete"
        ),
    ),
    misses=("RuntimeError: DataLoader timed out after 60 seconds",),
    gives_way=True,
)
