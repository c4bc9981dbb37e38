"""A sub-group waits for the address of a member that never created the group.

new_group must be called by all ranks of the job, in the same order, also by those that are not
members. A call under a condition, or groups created in different order, leaves the members
waiting. The number at the end of the key is the missing member's rank within the group.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="new-group-member-never-came",
    category="group-creation-mismatch",
    kind=Kind.CAUSE,
    title="A member of group {group} never took part in creating it",
    when=log(
        r"wait timeout after \d+ms, keys: \S*default_pg/0//(?P<group>\w+)//cpu//\d+/\d+",
    ),
    means=(
        "Creating a process group is itself a collective: every member publishes its address. "
        "Group {group} waited for one that never did."
    ),
    confidence=0.75,
    remedies=(
        "Call new_group on every rank, in the same order, outside of any condition on the rank.",
        "With use_local_synchronization=True only members call it, but then all members must.",
    ),
    next_steps=(
        "Compare the order of new_group calls on all ranks",
        "py-spy dump --pid PID  # of the ranks that are not in new_group",
    ),
    links=("https://pytorch.org/docs/stable/distributed.html#groups",),
    matches=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//1//cpu//0/1"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 1800000ms, keys: "
            "/worker/attempt_0/default_pg/0//7//cpu//0/3"
        ),
    ),
    misses=(
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//cpu//0/1"
        ),
        (
            "torch.distributed.DistStoreError: wait timeout after 4000ms, keys: "
            "/default_pg/0//never/set"
        ),
    ),
)
