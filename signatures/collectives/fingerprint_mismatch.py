"""PyTorch compared the collectives of all ranks before running them, and they differ.

TORCH_DISTRIBUTED_DEBUG=DETAIL exchanges a fingerprint (operation, shape, dtype, device) before
every collective. Both sides raise when two differ. What a rank says of itself is right. What it
says of the other rank may be wrong: where the fingerprints have different lengths (a barrier
against an all_reduce, tensors of different dimension) the peer's operation is made up from the
length, and only the first differing rank is named, which may be a healthy one. So the odd one
out is found by comparing what all ranks say of themselves, and this line alone blames nobody.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="fingerprint-mismatch",
    category="collective-mismatch",
    kind=Kind.CAUSE,
    title=(
        "Ranks called different collectives on one group at the same moment ({op} on the rank "
        "that says so)"
    ),
    when=log(
        (
            r"Detected mismatch between collectives on ranks\. Rank \d+ is running collective: "
            r"CollectiveFingerPrint\((?:SequenceNumber=(?P<seq>\d+)(?:, )?)?OpType=(?P<op>\w+)"
        ),
        r"Error when verifying shape tensors for collective (?P<op>\w+) on rank \d+",
    ),
    means=(
        "With TORCH_DISTRIBUTED_DEBUG=DETAIL each rank compares what it is about to run with the "
        "other ranks. They differ in operation, order, shape or dtype, so the collective could "
        "never have completed."
    ),
    confidence=0.95,
    remedies=(
        "Read what each rank says about itself and look for the minority.",
        (
            "Find the branch that sends it another way: a condition on rank, on local data, on a "
            "file, or a skipped batch."
        ),
        (
            "Make every rank of the group issue the same collectives in the same order with the "
            "same shapes and dtypes."
        ),
    ),
    next_steps=(
        (
            "TORCH_CPP_LOG_LEVEL=INFO with TORCH_DISTRIBUTED_DEBUG=DETAIL logs every collective "
            "of every rank."
        ),
    ),
    links=(
        (
            "https://pytorch.org/docs/stable/distributed.html#debugging-torch-d"
            "istributed-applications"
        ),
    ),
    matches=(
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
            "collective: CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, "
            "TensorShape=[4], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float "
            "(default), device=cpu)), but Rank 1 is running collective: "
            "CollectiveFingerPrint(SequenceNumber=12, OpType=BROADCAST, TensorShape=[4], "
            "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
            "device=cpu)).Collectives differ in the following aspects: \t Op type: ALLREDUCEvs "
            "BROADCAST"
        ),
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running "
            "collective: CollectiveFingerPrint(SequenceNumber=7OpType=BARRIER), but Rank 0 is "
            "running collective: "
            "CollectiveFingerPrint(SequenceNumber=7OpType=GATHER).Collectives differ in the "
            "following aspects:   Op type: BARRIERvs GATHER"
        ),
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 1 is running "
            "collective: CollectiveFingerPrint(OpType=ALLREDUCE, TensorShape=[20], "
            "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
            "device=cuda)), but Rank 0 is running collective: "
            "CollectiveFingerPrint(OpType=BARRIER)."
        ),
        (
            "RuntimeError: Error when verifying shape tensors for collective ALLREDUCE on rank "
            "0. This likely indicates that input shapes into the collective are mismatched "
            "across ranks. Got shapes: 10"
        ),
    ),
    misses=(
        (
            "[I1121 02:09:06.159205308 ProcessGroupWrapper.cpp:611] [Rank 0] Running collective: "
            "CollectiveFingerPrint(SequenceNumber=12, OpType=ALLREDUCE, TensorShape=[4], "
            "TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default), "
            "device=cpu))"
        ),
        "AssertionError: Detected mismatch between expected and actual loss",
    ),
)
