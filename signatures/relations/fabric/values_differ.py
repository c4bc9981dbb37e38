"""Ranks differ in what must be the same on all of them: versions and settings.

The fewest are blamed, a tie names nobody.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallState
from whyhang.analyzer.fingerprints import Difference, difference, known_keys, leading
from whyhang.analyzer.queries import Case, Hit, Signature

SHOWN = 3

NCCL_VARIABLES = (
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
)

TORCH_VARIABLES = (
    "TORCH_DISTRIBUTED_DEBUG",
    "TORCH_DIST_INIT_BARRIER",
    "TORCH_DIST_USE_NCCL2",
    "TORCH_DISTRIBUTED_USE_TORCHCOMMS",
    "TORCH_NCCL_USE_COMM_NONBLOCKING",
    "TORCH_NCCL_RANKS_PER_ROOT",
    "TORCH_GLOO_LAZY_INIT",
    "GLOO_DEVICE_TRANSPORT",
)


NCCL_VERSIONS = Signature(
    id="nccl-versions-differ",
    story="""\
Ranks of one job have different NCCL libraries loaded.

NCCL talks a protocol of its own between ranks that changes from release to release. Since 2.23
it refuses other versions at the first communicator; before, the job hangs there or later, or
messages are cut off. Mixed images, a system library in front of the wheel's (LD_LIBRARY_PATH,
LD_PRELOAD) and half-updated environments do it.

The fewest ranks are named; with two halves nobody is.
""",
    category="nccl-version-mismatch",
    level="setup",
    title="{who} runs NCCL {theirs}, the others {usual}",
    when=lambda case: _differ(case, "nccl", numbers=2),
    means="Ranks with different NCCL releases cannot talk to each other.",
    confidence="likely",
    remedies=(
        "Start all ranks from one image or environment; look at LD_LIBRARY_PATH and LD_PRELOAD.",
    ),
    next_steps=("grep libnccl /proc/PID/maps  # on every host",),
)

TORCH_VERSIONS = Signature(
    id="torch-versions-differ",
    story="""\
Ranks of one job run different releases of torch.

DDP, FSDP and the process groups of another release make other collectives: buckets, checks at
start-up, names of keys in the store. The ranks then wait for calls that the others never make.
Mixed images and half-updated environments do it.

The fewest ranks are named; with two halves nobody is.
""",
    category="nccl-version-mismatch",
    level="setup",
    title="{who} runs torch {theirs}, the others {usual}",
    when=lambda case: _differ(case, "torch", numbers=2),
    means="Releases of torch differ in the collectives that one and the same program makes.",
    confidence="likely",
    remedies=(
        "Start all ranks from one image or environment; look at LD_LIBRARY_PATH and LD_PRELOAD.",
    ),
    next_steps=("grep libtorch /proc/PID/maps  # on every host",),
)

NCCL_SETTINGS = Signature(
    id="nccl-settings-differ",
    story="""\
Ranks have different settings of NCCL where all must have the same.

Algorithm, protocol, channels, buffer sizes and which transports may be used are chosen by each
rank for itself from its environment. Where they differ, ranks wait for messages in another form:
nothing warns, the first collective hangs or the job fails with a size that does not fit.

Names of interfaces, devices and files may differ from host to host and are not compared.
""",
    category="nccl-version-mismatch",
    level="setup",
    title="{who} has {key}={theirs}, the others: {usual}",
    when=lambda case: _differ(case, *NCCL_VARIABLES),
    means="With {key} set unlike the others, ranks may use forms that the others do not.",
    confidence="possible",
    remedies=("Give all ranks the same {key}: set it in the launcher, not on single hosts.",),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep ^NCCL_  # on every host",),
)

TORCH_SETTINGS = Signature(
    id="torch-settings-differ",
    story="""\
Ranks have different settings of torch that decide which groups and barriers there are.

With ``TORCH_DISTRIBUTED_DEBUG=DETAIL`` every group gets a second one of gloo beside it, which all
of its ranks must build; with ``TORCH_DIST_INIT_BARRIER`` all of them must come to a barrier. A rank
that was started without the setting never does, and the others wait for it.
""",
    category="group-creation-mismatch",
    level="setup",
    title="{who} has {key}={theirs}, the others: {usual}",
    when=lambda case: _differ(case, *TORCH_VARIABLES),
    means=(
        "With {key} set unlike the others, {who} builds other groups or comes to other barriers "
        "than they do."
    ),
    confidence="likely",
    remedies=("Give all ranks the same {key}: set it in the launcher, not on single hosts.",),
    next_steps=("tr '\\0' '\\n' </proc/PID/environ | grep -E '^(TORCH|GLOO)_'  # of each rank",),
)

ADDRESS_FAMILIES = Signature(
    id="nccl-address-families-differ",
    story="""\
Some ranks of a job offer IPv6 addresses to NCCL's bootstrap, others IPv4.

Each rank takes the first address of its interface. On hosts of different set-up that is once an
IPv6 and once an IPv4 address, and neither side can call the other.

The fewest ranks are named; with two halves nobody is.
""",
    category="nccl-network-interface",
    level="setup",
    title="{who} offers NCCL an {theirs} address, the others {usual}",
    when=lambda case: _differ(case, "address-family"),
    means="Ranks with addresses of different families cannot call each other.",
    confidence="likely",
    remedies=("Set NCCL_SOCKET_FAMILY=AF_INET (or AF_INET6) for all ranks.",),
    next_steps=(
        "Run again with NCCL_SOCKET_FAMILY=AF_INET: it starts if this is it.",
        "ip -br addr  # on a host of each kind",
    ),
)

SIGNATURES = (NCCL_VERSIONS, TORCH_VERSIONS, NCCL_SETTINGS, TORCH_SETTINGS, ADDRESS_FAMILIES)


def _differ(case: Case, *keys: str, numbers: int = 0) -> Iterator[Hit]:
    """Yield one hit for each key in which ranks differ, if the job stands still.

    ``keys`` are "torch", "nccl", the name of a library, or of a variable of the environment.
    ``numbers``: of versions, so many numbers count (0: all of the text).
    """
    if not _stands(case):
        return
    same = leading(numbers) if numbers else str
    for key in known_keys(case, keys):
        values = difference(case, key, same)
        if values is not None and not _talked(case, values):
            yield _hit(case, values)


def _talked(case: Case, values: Difference) -> bool:
    """Return whether NCCL of both kinds has completed calls together, so that they get on."""
    if values.key != "nccl":
        return False
    odd = set(case.ranks(value.member for value in values.odd))
    usual = set(case.ranks(value.member for value in values.most))
    return any(
        any(line.completed.get(rank) for rank in odd)
        and any(line.completed.get(rank) for rank in usual)
        for line in case.graph.calls.groups
        if line.space == "torch"
    )


def _stands(case: Case) -> bool:
    """Return whether some rank waits for others: a job that goes on does not mind."""
    if case.graph.progress:
        return False
    started = any(
        call.op == "comm_init" and call.state is CallState.STARTED
        for track in case.job.tracks
        for call in track.calls
    )
    graph = case.graph
    return bool(graph.waiting or graph.maybe or case.graph.calls.waits or started)


def _hit(case: Case, values: Difference) -> Hit:
    odd = tuple(value.member for value in values.odd)
    shown = (*values.odd[:SHOWN], values.most[0])
    return Hit(
        members=odd,
        affected=tuple(value.member for value in values.most),
        names_culprit=not values.tie,
        evidence=tuple(
            queries.cite(
                value.source,
                f"{values.key}: {value.text or 'not set'}",
                case.member(value.member).rank,
            )
            for value in shown
        ),
        fields={
            "key": values.key,
            "theirs": values.odd[0].text or "not set",
            "usual": values.most[0].text or "not set",
        },
    )
