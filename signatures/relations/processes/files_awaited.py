"""Every rank looks again and again for a file that another one is to write, and none is written.

Ranks that meet over a shared disk wait so: for a mark of each rank, for the part of a round. They
hang where they do not mean the same files: another folder, another round. What their loops counted
tells who is apart, where whole numbers name the files.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import grouped, ranks_in_words
from whyhang.analyzer.queries import Case, Hit, RankState, Signature, Status, quoted
from whyhang.analyzer.rank_state.over_time.job_progress import step_counters
from whyhang.analyzer.stacks.kinds import AWAITED_FILE
from whyhang.analyzer.stacks.polls import awaited_file


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit if all ranks look for files, and none counts on."""
    states = case.states
    if len(states) < 2 or case.job.missing or not all(map(_looks_for_file, states)):
        return
    user = states[0].user
    loop = awaited_file(user, case.text) if user is not None else None
    apart, words = _apart(case)
    others = tuple(state.member for state in states if state.member not in apart)
    yield queries.hit_about(
        case,
        apart,
        others,
        shown=apart or others[:1],
        evidence=queries.places_of(case, *(apart[:1] or others[:1]), others[-1]),
        fields={
            "loop": quoted(loop, case.text) if loop is not None else "a loop",
            "apart": words,
        },
    )


def _looks_for_file(state: RankState) -> bool:
    return state.status in {Status.BLOCKED, Status.MAYBE} and state.op == AWAITED_FILE


def _apart(case: Case) -> tuple[tuple[int, ...], str]:
    """Return the fewer members of two kinds, by a count that all have, and what each has."""
    counted = step_counters(case.job)
    common = [set(counted.get(state.member, ())) for state in case.states]
    for counter in sorted(set.intersection(*common)):
        now = {number: own[counter][-1] for number, own in counted.items() if counter in own}
        sides = grouped(now, now.__getitem__)
        few, *many = sorted(sides.items(), key=lambda side: len(side[1]))
        if len(many) == 1 and len(few[1]) < len(many[0][1]):
            kinds = (
                f"{counter[0]} is {value} on {ranks_in_words(case.ranks(members))}"
                for value, members in (few, many[0])
            )
            return tuple(few[1]), f": {', '.join(kinds)}"
    return (), ""


SIGNATURE = Signature(
    id="files-awaited",
    category="store-key-never-set",
    level="program",
    title="All ranks look for files that nobody writes{apart}",
    when=when,
    means=(
        "Every rank waits in {loop}, and no file appears: they do not mean the same files, or who "
        "should write one waits as well."
    ),
    confidence="likely",
    remedies=(
        "Let one rank name the folder and the round, and tell it to the others (broadcast).",
        "Wait with a limit, and say then which file is missing and who should have written it.",
    ),
    next_steps=("py-spy dump --locals --pid {pid}  # of each rank: which path does it look for?",),
)
