"""new_group is called by some ranks only, or in another order by some.

Creating a process group is itself collective: every rank of the job must call new_group, in
the same order, also those that will not be in the group. The callers wait in the store or in
the connection set-up while the others are in another operation.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature, WaitKind
from whyhang.analyzer.wording.describe import collective_of


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames those who do not take part, if they are known to be elsewhere."""
    meetings = {m.kind: m for m in case.graph.operations}
    creating = meetings.get(WaitKind.GROUP)
    if creating is None or case.graph.progress or case.graph.lagging:
        return
    inside = set(creating.members)
    outside = tuple(
        s.member
        for s in case.states
        if s.member not in inside and s.status in queries.WAITERS and s.place is not None
    )
    if not outside:
        return
    few = queries.count(case, outside) < queries.count(case, creating.members)
    blamed = outside if few else creating.members
    shown = [case.states[outside[0]], case.states[creating.members[0]]]
    fields = queries.subject_fields(case, [case.states[n] for n in blamed], creating.members)
    fields["inside"] = case.names(creating.members)
    fields["create"] = "creates" if queries.count(case, creating.members) == 1 else "create"
    fields["outside"] = case.names(outside)
    yield Hit(
        members=blamed,
        affected=creating.members if few else outside,
        names_culprit=few,  # of as many outside, some may be no members of that group
        evidence=tuple(piece for state in shown for piece in queries.evidence_of(case, state)),
        collective=collective_of(case, creating),
        location=queries.location_of(case, case.states[blamed[0]]),
        fields=fields,
    )


SIGNATURE = Signature(
    id="group-creation-mismatch",
    category="group-creation-mismatch",
    level="program",
    title="{inside} {create} a process group without {outside}",
    when=when,
    means=(
        "{inside} wait inside the creation of a process group; {outside} wait in another "
        "operation. new_group must be called by every rank of the job, in the same order."
    ),
    confidence="strong",
    remedies=(
        "Call new_group (or init_device_mesh) on all ranks, outside of any branch on the rank.",
        "Where only the members may call it, pass use_local_synchronization=True.",
    ),
    next_steps=("grep -rn 'new_group' .  # in the training code: does a rank skip one?",),
    links=("https://pytorch.org/docs/stable/distributed.html#torch.distributed.new_group",),
    # the group that some do not create is why they come to be a step apart
    explains=("in-another-step",),
)
