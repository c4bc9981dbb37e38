"""A rank waits for a process that it started, and that process is stopped by a signal.

A converter, an uploader, the server of a multiprocessing manager: stopped by Ctrl-Z, a debugger,
a write to a terminal from the background, a SIGSTOP that was meant for somebody else. The rank
waits as long as the process does not go on.
"""

from whyhang.analyzer.match import Kind, Signature, helper_stopped

SIGNATURE = Signature(
    id="helper-stopped",
    category="rank-stopped",
    kind=Kind.CAUSE,
    level="kill",
    title="{who} {waits} for process {child}, which is stopped by a signal{at}{waiting}",
    when=helper_stopped(),
    means=(
        "Process {child} ({runs}), which {who} started, does not run until it is let go on; {who} "
        "{waits} meanwhile{at}."
    ),
    confidence="certain",
    remedies=(
        "Let it go on: kill -CONT {child}.",
        "Find out who stopped it: a debugger, job control of a shell, a read from the terminal.",
    ),
    next_steps=("grep -E 'State|TracerPid' /proc/{child}/status  # T: stopped, t: traced",),
    explains=("dataloader-blocked", "lock-deadlock", "missing-rank-in-collective"),
)
