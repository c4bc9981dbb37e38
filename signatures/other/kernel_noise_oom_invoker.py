"""The line names who asked for memory, not who was killed.

"invoked oom-killer" is the process whose allocation failed; the kernel then chooses its victim,
often another one. The line with "Killed process" or "task=...,pid=" names it.

Blaming the invoker is a common mistake.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-noise-oom-invoker",
    category="rank-oom-killed",
    kind=Kind.CONSEQUENCE,
    title="{task} asked for memory when the OOM killer started",
    when=log(
        r"(?P<task>[\w./:+-]+) invoked oom-killer: ",
    ),
    means=(
        "This process only asked for memory at the wrong moment; the killed one stands in the "
        "lines below."
    ),
    confidence=0.8,
    matches=(
        "python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=985",
        (
            "[81234.5] containerd invoked oom-killer: "
            "gfp_mask=0x1100cca(GFP_HIGHUSER_MOVABLE), order=0, oom_score_adj=-999"
        ),
    ),
    misses=("Memory cgroup out of memory: Killed process 48213 (python3) total-vm:123456kB",),
)
