"""DCGM's diagnostic found a GPU wanting.

``dcgmi diag`` ran a test on it (memory, PCIe, power, stress) and says Fail. It runs where no job
is, so it tells of the board and not of the moment: a GPU that fails should not be given work.
The text beside the test says what failed.
"""

from whyhang.analyzer.match import Fault, Kind, Signature, faulty

SIGNATURE = Signature(
    id="gpu-failed-test",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    level="machine",
    title="{gpus} failed DCGM's diagnostic{used}",
    when=faulty(Fault.TESTED),
    means="{gpus}: {says}.",
    confidence="likely",
    remedies=("Take {hosts} out of the job until the test passes.",),
    next_steps=("dcgmi diag -r 3 -i {index}  # on {hosts}, with no job on it",),
    links=("https://docs.nvidia.com/datacenter/dcgm/latest/user-guide/dcgm-diagnostics.html",),
)
