"""All ranks wait in collectives, and their source lines name different groups.

Where no recorder ran, the stacks show everyone inside a collective and nobody late. If the
lines that they stand at pass different groups, ranks that are in several of them have entered
these in orders that do not fit: a circle without a late rank.
"""

from whyhang.analyzer.match import Kind, Signature, WaitKind, different_groups

SIGNATURE = Signature(
    id="groups-crossed",
    category="cross-group-deadlock",
    kind=Kind.CAUSE,
    level="program",
    title="All ranks wait, on different groups, and none is late: {sides}",
    when=different_groups(WaitKind.COLLECTIVE),
    means=(
        "Everyone stands in a collective: {sides}. The lines name different groups, so ranks that "
        "are in both wait in one for ranks that wait in the other."
    ),
    confidence="possible",
    remedies=("Enter the groups in one order on every rank.",),
    next_steps=("TORCH_FR_BUFFER_SIZE=2000 on the next run records the order of the calls.",),
    explains=("stuck-together", "collective-mismatch"),
)
