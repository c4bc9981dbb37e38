"""The file that the ranks meet through still holds what an earlier run put there.

A run that is killed does not remove it. New ranks read the addresses of processes that are gone,
or that still live; some fail at once, others wait for ever.
"""

from whyhang.analyzer.match import Kind, Signature, file_stale

SIGNATURE = Signature(
    id="init-file-stale",
    category="init-file-store",
    kind=Kind.CAUSE,
    level="setup",
    title="{path}, where the ranks meet, is left over from an earlier run ({counted})",
    when=file_stale(),
    means=(
        "The file holds the entries of an earlier start ({counted}). The ranks of this one find "
        "addresses of processes that are gone or not theirs, and wait for them."
    ),
    confidence="certain",
    remedies=(
        "Remove {path} and start again, after every process of the earlier run has ended.",
        "Give each run a file of its own: a new name, or a fresh folder.",
    ),
    next_steps=("ls -la {path}; fuser -v {path}; ps -eo pid,lstart,args | grep python",),
    explains=(
        "init-duplicate-rank",
        "init-missing-rank",
        "missing-rank-in-collective",
        "rank-died",
        "stuck-together",
        "gloo-mesh-failed",
    ),
)
