"""PyTorch cannot be imported because the libnccl that is found first is too old.

LD_LIBRARY_PATH, a module (module load cuda), a conda package or the system's library wins over
the one that came with PyTorch. If only some nodes have it, those ranks die and the others wait.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-symbol-missing",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    title="An NCCL library older than this PyTorch needs was loaded on {who}",
    when=log(
        r"undefined symbol: (?P<symbol>nccl\w+)",
        blames=Blames.SPEAKER,
    ),
    means=(
        "PyTorch calls {symbol}, which the NCCL library that was loaded does not have. Another "
        "libnccl is found first, so the process cannot even import torch."
    ),
    confidence=0.93,
    remedies=(
        (
            "Remove the other libnccl from LD_LIBRARY_PATH, or reinstall nvidia-nccl-cu12 in the "
            "version that this PyTorch requires."
        ),
        "Use the same image or environment on all nodes.",
    ),
    next_steps=(
        (
            "ldd $(python -c 'import "
            "torch,os;print(os.path.dirname(torch.__file__))')/lib/libtorch_cuda.so | grep nccl"
        ),
        "echo $LD_LIBRARY_PATH  # on every node",
    ),
    matches=(
        (
            "ImportError: /opt/conda/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so: "
            "undefined symbol: ncclCommRegister"
        ),
        (
            "ImportError: /usr/local/lib/python3.12/site-packages/torch/lib/libtorch_cuda.so: "
            "undefined symbol: ncclMemAlloc"
        ),
    ),
    misses=("ImportError: flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi",),
    outranks=(
        "import-failed",
        "launcher-exit-code",
        "spawned-process-failed",
        "slurm-task-failed",
    ),
)
