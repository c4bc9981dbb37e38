"""A process cannot import a module and ends before it joins the job.

When all ranks say so, a package is simply missing. When only those of one node do, that node
has another environment: an image that was not pulled, a virtual environment that was not
activated, a shared folder that is not mounted. Optional imports that a program catches print
such lines too.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="import-failed",
    category="rank-died",
    kind=Kind.CAUSE,
    title="{who} could not import what the program needs",
    when=log(
        r"ModuleNotFoundError: No module named '",
        (
            r"ImportError: (?:cannot import name|lib\S+: cannot open shared object file|/\S+: "
            r"undefined symbol|/\S+: version )"
        ),
        blames=Blames.SPEAKER,
        ends_process=True,
    ),
    means=(
        "The process ended before it joined the others. If the rest of the job has the module, "
        "their environments differ, and they wait for this rank."
    ),
    confidence=0.75,
    everywhere="not-distributed",
    remedies=(
        "Install the same environment on all nodes, or activate it in the launch command.",
        "Check that the shared file system with the environment is mounted on that node.",
    ),
    next_steps=(
        ("which python; python -c 'import torch; print(torch.__version__)'  # on every node"),
    ),
    matches=(
        "ModuleNotFoundError: No module named 'flash_attn'",
        "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory",
        (
            "ImportError: /opt/flash_attn_2_cuda.cpython-310-x86_64-linux-gnu.so: undefined "
            "symbol: _ZN3c104cuda9SetDeviceEi"
        ),
        (
            "ImportError: cannot import name 'AutoModel' from 'transformers' "
            "(/opt/env/transformers/__init__.py)"
        ),
        (
            "ImportError: /opt/conda/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: "
            "undefined symbol: ncclCommRegister"
        ),
        (
            "ImportError: /usr/local/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: "
            "undefined symbol: ncclMemAlloc"
        ),
    ),
    misses=("WARNING: module flash_attn is not installed, falling back to eager attention",),
    outranks=(
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
