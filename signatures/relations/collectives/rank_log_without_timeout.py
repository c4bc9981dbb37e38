"""The watchdogs of all ranks but few gave up; the logs of those few end without a word of it.

Where every rank writes a log of its own, a watchdog that waits says so in it. A rank that says
nothing has no call open: it is in other code, is stopped, or its process was ended from outside.
"""

from whyhang.analyzer.match import Kind, Signature, either, went_on

SIGNATURE = Signature(
    id="rank-log-without-timeout",
    category="missing-rank-in-collective",
    kind=Kind.CAUSE,
    level="wait",
    title="{others} waited until the time-out; the log of {who} says nothing of it",
    when=either(
        went_on(own_logs=True),
        went_on(r"\[TC\]\[rank=\d+\]\[name=[^\]]*\] Operation timed out after", own_logs=True),
    ),
    means=(
        "The NCCL watchdogs of {others} gave up a call. {who} has a log, too, and in it no "
        "watchdog waits, so the call was not made there: the rank was elsewhere, or gone."
    ),
    confidence="possible",
    remedies=(
        "Read the last lines of the log of {who}, and find what it does after them.",
        "If its process was ended: dmesg and the scheduler say by whom.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
    matches=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:811] [TC][rank=3][name=0] Operation "
            "timed out after 600000 ms"
        ),
        "[TC][rank=0][name=0] Operation timed out after 600000 ms",
    ),
    misses=("[TC][rank=0][name=0] Timeout thread starting for rank: 0",),
    gives_way=True,
)
