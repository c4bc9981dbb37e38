"""DistributedDataParallel finds a parameter whose shape or strides differ from rank 0's.

The ranks built different models: a vocabulary or class count taken from local data, another
config, a resumed checkpoint on some ranks only, or a transposed layout. Ranks other than 0
raise; rank 0 itself raises nothing and sees only that the others left.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="ddp-parameter-shape-differs",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title="{who} built a model whose parameter {index} differs from rank 0's",
    when=log(
        (
            r"(?:\[(?P<rank>\d+)\]: )?params\[(?P<index>\d+)\] in this process with sizes \[[\d, "
            r"]*\] appears not to match (?:sizes|strides) of the same param in process 0"
        ),
        blames=Blames.NAMED,
    ),
    means=(
        "DistributedDataParallel compares the shape of every parameter with rank 0 when it is "
        "built. Parameter {index} has another shape or memory layout here, so gradients could "
        "not be reduced; the other ranks lose their connection or wait."
    ),
    confidence=0.92,
    remedies=(
        (
            "Compare what the model is built from on that rank and on rank 0: config, label "
            "count, tokenizer, checkpoint."
        ),
        "Compute such numbers on rank 0 and broadcast them.",
    ),
    next_steps=("Print [tuple(p.shape) for p in model.parameters()] on both ranks and compare.",),
    links=(
        "https://pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html",
    ),
    matches=(
        (
            "RuntimeError: [1]: params[0] in this process with sizes [5, 4] appears not to match "
            "sizes of the same param in process 0."
        ),
        (
            "RuntimeError: params[17] in this process with sizes [64, 3, 7, 7] appears not to "
            "match strides of the same param in process 0."
        ),
    ),
    misses=(
        (
            "RuntimeError: Error(s) in loading state_dict for Net: size mismatch for fc.weight: "
            "copying a param with shape torch.Size([10, 4])"
        ),
    ),
)
