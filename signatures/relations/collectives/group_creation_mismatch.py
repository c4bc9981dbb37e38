"""new_group is called by some ranks only, or in another order by some.

Creating a process group is itself collective: every rank of the job must call new_group, in
the same order, also those that will not be in the group. The callers wait in the store or in
the connection set-up while the others are in another operation.
"""

from whyhang.analyzer.match import Kind, Signature, creates_group

SIGNATURE = Signature(
    id="group-creation-mismatch",
    category="group-creation-mismatch",
    kind=Kind.CAUSE,
    level="program",
    title="{inside} {create} a process group without {outside}",
    when=creates_group(),
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
)
