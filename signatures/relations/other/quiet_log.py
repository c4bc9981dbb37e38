"""The logs tell of nothing wrong.

They were read to their ends: no error, no timeout, no call that was begun and not ended; what
looks bad in them is known to be harmless. A job that hangs without a word leaves such logs
too, so this is said only where there is no other evidence, and not as a certainty, and not if
whoever pasted the log writes beside it that the job hangs.
"""

from whyhang.analyzer.match import Kind, Signature, log, quiet_logs

SIGNATURE = Signature(
    id="quiet-log",
    category="healthy",
    kind=Kind.CAUSE,
    level="fallback",
    title="The logs tell of nothing wrong",
    when=quiet_logs(),
    unless=log(
        # an error of torch's process group, whatever it says
        (
            r"(?:^|[\s\[\]:])[EF]\d{0,4}(?: [\d:.]+)?(?: +\d+)? "
            r"(?:ProcessGroup\w+|TCPStore)\.cpp:\d+\]"
        ),
        r"Traceback \(most recent call last\)",  # cut off before it says of what
        # the words of somebody who pasted the log
        (
            r"(?i)\b(?:it|job|model|training|run|program|script|process(?:es)?|code|server|gets?"
            r"|got|is|are|just|keeps?) (?:always |just |still )?(?:hangs|hung|stuck|hanging|frozen"
            r"|freezes|froze|deadlocks|deadlocked)\b"
        ),
    ),
    means=(
        "No cause of a hang and none of its consequences was found in the logs. If the job does "
        "not move all the same, its logs do not say why."
    ),
    confidence="possible",
    remedies=("If the job hangs, look at it while it does: whyhang PID.",),
    next_steps=("whyhang PID  # any process of the job",),
    last_resort=True,
    misses=(
        "[E429 13:55:49.384372190 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg)",
        "Traceback (most recent call last):",
        "And the model just hangs there forever; with two nodes it gets stuck, too.",
    ),
)
