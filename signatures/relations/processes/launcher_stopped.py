"""The launcher is stopped by a signal or a debugger, and the job needs it.

Ctrl-Z in the terminal that started torchrun, a scheduler that suspends, a debugger. Ranks that
have ended stay zombies, and nobody restarts or ends the rest. The store of a torchrun job lives
in the agent, so that init_process_group and new_group get no answer either.
"""

from whyhang.analyzer.match import Kind, Signature, launcher_stopped

SIGNATURE = Signature(
    id="launcher-stopped",
    category="rank-stopped",
    kind=Kind.CAUSE,
    level="kill",
    title="{who} is stopped by a signal{waiting}",
    when=launcher_stopped(),
    means=(
        "{who} does not run until it is let go on{waiting}. It is the launcher that collects ranks "
        "which have ended, reports how, and keeps the store where ranks meet."
    ),
    confidence="certain",
    remedies=(
        "Let it go on: kill -CONT {pid}, or fg in the terminal where it was stopped.",
        "Find out who stopped it: Ctrl-Z, a suspended allocation, a debugger.",
    ),
    next_steps=("grep -E 'State|TracerPid' /proc/{pid}/status  # T: stopped, t: traced",),
    explains=("init-missing-rank", "init-not-connected", "rank-died", "store-key-never-set"),
)
