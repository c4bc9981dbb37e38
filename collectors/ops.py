"""The operations of torch.distributed, by whatever name torch or NCCL gives them."""

P2P = frozenset({"send", "recv"})

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
