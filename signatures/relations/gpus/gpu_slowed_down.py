"""The clocks of a GPU are held down by heat or by the power supply.

Its rank is slower than the others, which wait for it in every step: slow, not hung. A power cap
in software is everyday and does not count, nor does a brake that all GPUs share.
"""

from whyhang.analyzer.match import Kind, Signature, slowed_down

SIGNATURE = Signature(
    id="gpu-slowed-down",
    category="slow-not-hung",
    kind=Kind.CAUSE,
    level="wait",
    title="{gpus} is slowed down{used}: {says}",
    when=slowed_down(),
    means="The clocks of {gpus} are held down ({says}), those of the GPUs beside it are not.",
    confidence="possible",
    remedies=("Look at cooling, airflow and power supplies of {hosts}.",),
    next_steps=("nvidia-smi -q -d PERFORMANCE,CLOCK,TEMPERATURE -i {index}  # on {hosts}",),
    explains=("slow-not-hung",),
)
