"""A thread of the program ended with an exception, and the program went on without it.

A prefetcher, a logger or an uploader that dies leaves whoever waits for its next item waiting
for ever; others are not missed by anybody. The log alone does not tell which it was.
"""

from whyhang.analyzer.match import Kind, Signature, raised

SIGNATURE = Signature(
    id="thread-raised",
    category="unknown",
    kind=Kind.CAUSE,
    level="wait",
    title="A thread of {who} ended with {what}{at}",
    when=raised(in_thread=True),
    means=(
        "The thread is gone and the program goes on without it. If something waits for what it "
        "was to deliver, that waits for ever."
    ),
    confidence="possible",
    remedies=("Let the thread hand its exception to whoever waits for it.",),
    next_steps=("py-spy dump --pid PID  # does the main thread wait on a queue or an event?",),
    gives_way=True,
    explains=("quiet-log",),
)
