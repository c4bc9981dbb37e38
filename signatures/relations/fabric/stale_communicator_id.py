"""A process sets a second communicator up with the id of one that it has had already.

An id (commId) leads to the place where rank 0 of one communicator listened while that was set up;
afterwards nobody does. A process that reads an old id from the store (a key of the same name, left
from the group before) connects there in vain, while the others wait for it under the new id.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import CallState, grouped
from whyhang.analyzer.queries import Case, Hit, Signature, cite


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that use an id again and do not come through."""
    if case.graph.progress:
        return
    set_ups = (
        track
        for track in case.job.tracks
        if track.kind == "nccl-init" and track.group.name.startswith("nccl 0x")
    )
    by_id = grouped(set_ups, lambda x: (x.who.rank, x.who.host, x.who.pid, x.group.name))
    done = CallState.COMPLETED  # as the first set-up under such an id was, and the last was not
    ends = ((tracks, [tracks[at].calls[0].state for at in (0, -1)]) for tracks in by_id.values())
    again = [tracks for tracks, (first, last) in ends if first is done and last is not done]
    members = {m.id: tracks for tracks in again if (m := case.job.member_of(tracks[0].who))}
    if not members or len(members) == len(case.job.members):
        return
    tracks = next(iter(members.values()))
    shown = [track for own in members.values() for track in (own[0], own[-1])]
    yield queries.hit_about(
        case,
        members,
        [m.id for m in case.job.members if m.id not in members],
        evidence=[
            cite(track.source, f"{track.group.name} is set up", track.who.rank)
            for track in shown[:6]
        ],
        fields={"id": tracks[0].group.name.removeprefix("nccl ")},
        located=False,
    )


SIGNATURE = Signature(
    id="stale-communicator-id",
    category="init-master-unreachable",
    level="setup",
    title="{who} has used the id of an old NCCL communicator again ({id})",
    when=when,
    means=(
        "{who} has set up a communicator under {id} before, and nobody listens there any more. "
        "The others set up the new one under another id, and wait."
    ),
    confidence="strong",
    remedies=(
        "Let all ranks leave the old group before any makes the new one: a barrier between them.",
        "Make the new group with a store or prefix of its own, so that no old key is read.",
    ),
    next_steps=("grep 'commId' LOG  # with NCCL_DEBUG=INFO: whose id is an old one",),
)
