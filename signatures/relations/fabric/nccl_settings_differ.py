"""Ranks have different settings of NCCL where all must have the same.

Algorithm, protocol, channels, buffer sizes and which transports may be used are chosen by each
rank for itself from its environment. Where they differ, ranks wait for messages in another form:
nothing warns, the first collective hangs or the job fails with a size that does not fit.

Names of interfaces, devices and files may differ from host to host and are not compared.
"""

from whyhang.analyzer.match import Kind, Signature, unlike

SIGNATURE = Signature(
    id="nccl-settings-differ",
    category="nccl-version-mismatch",
    kind=Kind.CAUSE,
    level="setup",
    title="{who} has {key}={theirs}, the others: {usual}",
    when=unlike(
        "NCCL_ALGO",
        "NCCL_PROTO",
        "NCCL_MIN_NCHANNELS",
        "NCCL_MAX_NCHANNELS",
        "NCCL_MIN_CTAS",
        "NCCL_MAX_CTAS",
        "NCCL_NTHREADS",
        "NCCL_BUFFSIZE",
        "NCCL_NET",
        "NCCL_NET_PLUGIN",
        "NCCL_TUNER_PLUGIN",
        "NCCL_IB_DISABLE",
        "NCCL_P2P_DISABLE",
        "NCCL_P2P_LEVEL",
        "NCCL_SHM_DISABLE",
        "NCCL_CUMEM_ENABLE",
        "NCCL_NVLS_ENABLE",
        "NCCL_MNNVL_ENABLE",
        "NCCL_COLLNET_ENABLE",
        "NCCL_CROSS_NIC",
        "NCCL_RUNTIME_CONNECT",
        "NCCL_SOCKET_FAMILY",
        "NCCL_SINGLE_RING_THRESHOLD",
        "NCCL_LL_THRESHOLD",
    ),
    means="With {key} set unlike the others, ranks may use forms that the others do not.",
    confidence="possible",
    remedies=("Give all ranks the same {key}: set it in the launcher, not on single hosts.",),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep ^NCCL_  # on every host",),
    explains=("ras-all-even", "stuck-together"),
)
