"""A rank waits at a debugger prompt or for keyboard input.

breakpoint(), pdb.set_trace() or input() in code that runs on every rank, or on one under a
condition. Without a terminal it ends in BdbQuit or EOFError; with one, it waits for ever while
the other ranks time out.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="debugger-prompt",
    category="rank-stopped",
    kind=Kind.CAUSE,
    title="{who} stopped at a debugger prompt or at input()",
    when=log(
        r"\(Pdb\+*\) ",
        r"ipdb> ",
        r"bdb\.BdbQuit",
        r"EOFError: EOF when reading a line",
        blames=Blames.SPEAKER,
    ),
    means=(
        "A breakpoint was left in the code, or it asks for input. That rank waits for a person "
        "(or fails because there is no terminal), and the others wait for it."
    ),
    confidence=0.85,
    remedies=(
        "Remove the breakpoint, or set PYTHONBREAKPOINT=0 for the job.",
        (
            "To debug one rank, use torch.distributed.breakpoint(rank), which holds the others "
            "at a barrier."
        ),
    ),
    next_steps=("grep -rn -E 'breakpoint\\(|set_trace|input\\(' .  # in the code",),
    matches=(
        "(Pdb) ",
        "(Pdb++) c",
        "ipdb> ",
        "bdb.BdbQuit",
        "EOFError: EOF when reading a line",
    ),
    misses=(
        "EOFError: Ran out of input",
        "EOFError",
    ),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
