"""The operations of torch.distributed, by whatever name torch or NCCL gives them."""

P2P = frozenset({"send", "recv"})

# Functions that say by themselves that a process waits for others: without one of them, a host
# with indented words below it is a list of anything.
OPERATIONS = frozenset(
    {"all_reduce", "broadcast", "all_gather", "all_gather_into_tensor", "reduce_scatter"}
    | {"reduce_scatter_tensor", "all_to_all", "all_to_all_single", "reduce", "gather", "scatter"}
    | {"barrier", "monitored_barrier", "send", "recv", "isend", "irecv", "batch_isend_irecv"}
    | {"all_gather_object", "broadcast_object_list", "gather_object", "synchronize"}
)

_WORDS = {
    "all_reduce": "allreduce",
    "all_reduce_coalesced": "allreducecoalesced",
    "all_reduce_sparse": "allreducesparse",
    "all_gather": "allgather",
    "all_gather_coalesced": "allgathercoalesced",
    "all_gather_into_tensor": "allgatherbase allgathersingle",
    "all_gather_into_tensor_coalesced": "allgatherintotensorcoalesced",
    "all_to_all": "alltoall alltoallbase alltoallsingle",
    "barrier": "allreducebarrier",
    "broadcast": "broadcastoop bcast",
    "recv": "recvanysource",
    "reduce": "reduceoop",
    "reduce_scatter": "reducescatter",
    "reduce_scatter_tensor": "reducescatterbase reducescattersingle",
}
_OPS = {word: op for op, words in _WORDS.items() for word in words.split()}


def op_of(name: str) -> str:
    """Return the name of torch's function.

    That is ``all_gather_into_tensor`` for ``_ALLGATHER_BASE`` of c10d and ``_all_gather_base`` of
    its recorder, ``all_reduce`` for NCCL's ``AllReduce``.
    """
    name = name.lower().lstrip("_")
    return _OPS.get(name.replace("_", ""), name)
