"""Horovod's stall check says for each tensor which ranks lack it, or which have submitted it."""

import re
from collections.abc import Iterator
from itertools import combinations

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

MAX_QUOTES = 6
MAX_KINDS = 300  # of sets of ranks that are compared with each other
LEAST = 2  # ranks, of which none is the odd one
SOME = "..."  # stands for all tensors, where lists of them were cut short

PATTERNS = (
    r"\[(?:missing|ready) ranks: ?\d[\d, ]*\]",
    (
        r"^(?:\[\d+\] )?\d+(?:!: \[|: \[.{0,200}(?:Horovod|Distributed\w*Optimizer"
        r"|allreduce\.|allgather\.|broadcast\.|/\S* \.\.\.\]))"
    ),
)
LINES = (
    "HorovodBroadcast_global_step_0 [missing ranks: 1]",
    "allreduce.avg_loss [missing ranks: 1, 3]",
    "allreduce.conv1.weight [ready ranks: 0, 3, 2, 4, 6], ",
    "2: [DistributedAdam_Allreduce/cond_14/HorovodAllreduce_grads_14_0 ...]",
    "HorovodAllreduce_loss_0 [ready ranks: 3], HorovodAllreduce_grad_0 [ready ranks: 0, 1, 2]",
    "0: [broadcast.noname.3765, broadcast.noname.3873]",
    "3!: [gradients_0, gradients_1]",
    "2: [DistributedAdam.grad/conv1/kernel, DistributedAdam.grad/conv2/kernel ...]",
)
_REPORT = re.compile(r"(?P<tensor>\S+) \[(?P<how>missing|ready) ranks: ?(?P<ranks>\d[\d, ]*)")
_LISTED = re.compile(r"^(?:\[\d+\] )?(?P<rank>\d+)!?: \[(?P<tensors>.*?)(?: \.\.\.)?\]?$")


def missing_ranks(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that lack every tensor."""
    missing, ready = _reports(case)
    if _differ(missing) or _differ(ready) or len(_lists(case)) > 1:
        return
    if ranks := _absent(missing, ready):
        yield _hit(case, ranks)


def different_tensors(case: Case) -> Iterator[Hit]:
    """Yield one hit where one rank lacks what another has submitted and the other way round."""
    missing, ready = _reports(case)
    lists = _lists(case)
    if len(lists) > 1:
        few, many = min(lists, key=len), max(lists, key=len)
        yield _hit(case, few if len(few) < len(many) and len(lists) == LEAST else ())
    elif _differ(missing) or _differ(ready):
        yield _hit(case, _alone(ready))


MISSING_RANKS = Signature(
    id="horovod-missing-ranks",
    story="""\
Horovod's stall check names the ranks that did not submit a tensor.

The coordinator lists each tensor that waits with the ranks that are missing, or each missing rank
with the tensors that wait for it; the oldest versions list the ranks that are ready. Those that
lack every tensor run other code, ended their loop, or are stuck.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="Horovod waits for {who}, which did not submit what the others did",
    when=missing_ranks,
    patterns=PATTERNS,
    means=(
        "Horovod's coordinator has requests from the other ranks and none from {who}, which is "
        "elsewhere: it runs other code, has ended its loop, or is stuck."
    ),
    confidence="likely",
    remedies=(
        "Look at what {who} does: its log, and py-spy dump while it hangs.",
        "Let all ranks run the same number of steps (hvd.join() for uneven data).",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=LINES,
    misses=(
        "Missing ranks:",
        "3: [1, 2, 3]",
        (
            "One or more tensors were submitted to be reduced, gathered or broadcasted by subset "
            "of ranks and are waiting for remainder of ranks for more than 60 seconds."
        ),
    ),
)

DIFFERENT_TENSORS = Signature(
    id="horovod-ranks-apart",
    story="""\
Horovod's stall check tells that ranks have submitted different tensors.

Each of two ranks waits in a tensor that the other has not submitted: neither is late, they run
different code, such as a branch that depends on the data, or a model that differs.
""",
    category="collective-mismatch",
    level="program",
    title="Horovod's ranks wait for each other in different tensors",
    when=different_tensors,
    patterns=PATTERNS,
    means=(
        "Some ranks have submitted tensors that others lack, and lack what those have submitted. "
        "They are in different places of the program, so none of it can ever be complete."
    ),
    confidence="likely",
    remedies=(
        "Let every rank call the same operations: no collective in a branch that data decide.",
        "Give tensors names of their own: numbered ones differ as soon as one call is left out.",
    ),
    next_steps=("py-spy dump --pid PID  # of one rank of each kind",),
    links=("https://horovod.readthedocs.io/en/stable/troubleshooting_include.html",),
    matches=LINES,
    misses=("Missing ranks:", "3: [1, 2, 3]"),
)

SIGNATURES = (MISSING_RANKS, DIFFERENT_TENSORS)


def _hit(case: Case, ranks: tuple[int, ...]) -> Hit:
    lines = case.job.lines_with(PATTERNS)
    members, unseen = queries.members_of(case, ranks)
    first = min(lines, key=lambda line: (line.time or float("inf"), line.source.line or 0))
    return Hit(
        members=tuple(sorted(members)),
        ranks=unseen,
        names_culprit=bool(ranks),
        evidence=tuple(queries.cite_line(line) for line in lines[:MAX_QUOTES]),
        at=first.time,
    )


def _reports(case: Case) -> tuple[dict[str, set[int]], dict[str, set[int]]]:
    """Return by tensor the ranks that lack it, and the ranks that are said to have submitted it."""
    texts = [line.text for line in case.job.lines_with(PATTERNS)]
    missing: dict[str, set[int]] = {}
    ready: dict[str, set[int]] = {}
    cut = any(text.endswith(("...]", "...")) for text in texts)  # lists that cannot be compared
    for text in texts:
        for report in _REPORT.finditer(text):
            into = missing if report["how"] == "missing" else ready
            into[report["tensor"]] = set(
                queries.ranks_in(report["ranks"])
            )  # the last report counts
        if listed := _LISTED.match(text):
            names = [SOME] if cut else listed["tensors"].split(", ")
            for tensor in names:
                missing.setdefault(tensor, set()).update(queries.ranks_in(listed["rank"]))
    return missing, ready


def _lists(case: Case) -> list[tuple[int, ...]]:
    """Return the ranks that lack the same first tensor, where all of them lack one."""
    lists = [
        listed for line in case.job.lines_with(PATTERNS) if (listed := _LISTED.match(line.text))
    ]
    first = {int(x["rank"]): x["tensors"].partition(",")[0] for x in lists if len(x["rank"]) < 9}
    if len(first) <= LEAST or first.keys() != set(range(len(first))):
        return []
    kinds = sorted(set(first.values()))
    return [tuple(rank for rank in sorted(first) if first[rank] == kind) for kind in kinds]


def _differ(by_tensor: dict[str, set[int]]) -> bool:
    """Return whether two tensors each concern a rank that the other does not."""
    kinds = sorted({frozenset(ranks) for ranks in by_tensor.values()}, key=sorted)[:MAX_KINDS]
    return any(one - other and other - one for one, other in combinations(kinds, 2))


def _alone(ready: dict[str, set[int]]) -> tuple[int, ...]:
    """Return the rank that has submitted what no other has, where all others agree on the rest."""
    came = set[int]().union(*ready.values())
    kinds = {frozenset(ranks) for ranks in ready.values()}
    odd = [rank for rank in came if kinds == {frozenset({rank}), frozenset(came - {rank})}]
    return tuple(odd) if len(came) > LEAST and len(odd) == 1 else ()


def _absent(missing: dict[str, set[int]], ready: dict[str, set[int]]) -> tuple[int, ...]:
    """Return which ranks lack every tensor. Ranks are counted from 0 without gaps."""
    if missing:
        return tuple(sorted(set.intersection(*missing.values())))
    came = set[int]().union(*ready.values())
    return tuple(sorted(set(range(max(came, default=0))) - came))
