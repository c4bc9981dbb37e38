"""Lines of a program's own that ranks do not all print: some are absent, or in another phase."""

from collections.abc import Iterator

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import LogTail, Outlook, Setting, Source, WorldSize, ranks_in_words
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INCOMPLETE, Hit
from whyhang.analyzer.queries.hits import LONGEST, members_of
from whyhang.analyzer.queries.registry import side
from whyhang.analyzer.rank_state.from_logs.absent_from_lists import (
    LEAST_SPEAKING,
    WAITS,
    roll_call,
    unspoken,
)
from whyhang.analyzer.rank_state.from_logs.gave_up import gave_up, lost_peer
from whyhang.analyzer.rank_state.from_logs.log_ends import all_tails, has_failed, tails_of_ranks
from whyhang.analyzer.rank_state.from_logs.pace import slowed
from whyhang.analyzer.rank_state.state import Status
from whyhang.analyzer.report import cite
from whyhang.analyzer.wording.title_fields import subject_fields


@side("own_lines_show", what="absent")
def _absent_from_lines(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that are absent from what all others print."""
    if any(member.dumps for member in case.job.members) or case.graph.progress:
        return
    sizes = {stated.source.file: stated.size for stated in case.job.of(WorldSize)}
    absent = unspoken(case.job.of(LogTail), case.job.world_size, sizes)
    if absent is None:
        return
    yield Hit(
        category=_category(case),
        ranks=absent.ranks,
        affected=members_of(case, absent.others),
        evidence=(cite(absent.source, absent.line.text, absent.others[-1]),),
        strength=INCOMPLETE,
        fields={"others": ranks_in_words(absent.others), "line": absent.line.text[:LONGEST]},
        at=absent.line.time,
    )


@side("own_lines_show", what="not-in-roll")
def _absent_from_roll(case: Case) -> Iterator[Hit]:
    """Yield one hit for the ranks that another process does not name as it names all others."""
    if any(member.dumps for member in case.job.members) or case.graph.progress:
        return
    call = roll_call(case.job.of(LogTail), case.job.world_size)
    failed = (line for line in case.job.lines if line.raised is not None and line.raised.is_own)
    if call is None or any(WAITS.search(line.text) is None for line in failed):
        return
    if any(end.own for rank, end in case.ends.items() if rank not in call.ranks):
        return
    yield Hit(
        ranks=call.ranks,
        affected=members_of(case, call.others),
        evidence=(cite(call.source, call.line.text),),
        fields={
            "who": ranks_in_words(call.ranks),
            "others": ranks_in_words(call.others),
            "line": call.line.text[:LONGEST],
        },
        category="init-missing-rank" if call.at_start else "",
        at=call.line.time,
    )


@side("own_lines_show", what="alone-in-trouble")
def _alone_in_trouble(case: Case) -> Iterator[Hit]:
    """Yield one hit for the one rank whose last words are of trouble, of several that speak.

    Rank 0 often prints for all. Nothing where it waited in vain, where somebody without a label,
    who may be any of the others, is in trouble, or where a process was looked at or is known to
    have ended.
    """
    tails = tails_of_ranks(case.job)
    troubled = {rank: tail.trouble for rank, tail in tails.items() if tail.trouble is not None}
    others = sorted(tails.keys() - troubled.keys())
    known = case.ends or any(member.dumps for member in case.job.members)
    if len(troubled) != 1 or len(others) < LEAST_SPEAKING - 1 or known or case.graph.progress:
        return
    if any(tail.troubled or tail.outlook is Outlook.ENDED for tail in tails.values()):
        return
    ((rank, line),) = troubled.items()
    if rank in gave_up(case.job) | lost_peer(case.job):
        return
    yield Hit(
        ranks=(rank,),
        affected=members_of(case, others),
        evidence=(cite(Source(file=tails[rank].source.file, line=line.number), line.text, rank),),
        strength=CLEAR if rank else INCOMPLETE,
        fields={
            "who": ranks_in_words((rank,)),
            "others": ranks_in_words(others),
            "line": line.text[:LONGEST],
        },
        at=line.time,
    )


@side("own_lines_show", what="other-phase")
def _last_phase_differs(case: Case) -> Iterator[Hit]:
    """Yield one hit for each rank whose own lines part from the others', if it is in no call."""
    for state in case.states:
        phase = state.phase
        if phase is None or state.status not in {Status.UNSEEN, Status.RUNNING}:
            continue
        evidence, strength = [cite(phase.source, phase.line.text, phase.rank)], INCOMPLETE
        did = f"the others ({ranks_in_words(phase.others)}) print nothing like it there"
        if phase.lacks is not None and phase.lacks_source is not None:
            evidence.append(cite(phase.lacks_source, phase.lacks.text))
            did, strength = f"the others went on to '{phase.lacks.text[:LONGEST]}'", CLEAR
        yield Hit(
            category=_category(case),
            members=(state.member,),
            affected=members_of(case, sorted(phase.others)),
            evidence=tuple(evidence),
            strength=CLEAR if case.graph.waiting else strength if phase.at_work else GUESSED,
            fields={
                **subject_fields(case, [state], ()),
                "line": phase.line.text[:LONGEST],
                "did": did,
            },
            at=phase.line.time,
        )


@side("own_lines_show", what="slower")
def _steps_slower(case: Case) -> Iterator[Hit]:
    """Yield one hit if the steps that logs count take much longer up to their end than before.

    Nothing where something failed, or ranks waited in vain: then that is what matters.
    """
    job = case.job
    tails = [tail for tail in all_tails(job) if tail.outlook is Outlook.STEPS]
    over = case.ends or has_failed(job) or gave_up(job) or lost_peer(job) or case.graph.waiting
    if over or any(tail.trouble for tail in tails) or any(m.dumps for m in job.members):
        return
    slow = slowed(tails)
    if slow is None:
        return
    lines = (slow.before, slow.line)
    yield Hit(
        names_culprit=False,
        evidence=tuple(
            cite(Source(file=slow.source.file, line=line.number), line.text) for line in lines
        ),
        fields={"times": f"{slow.times:.0f}", "line": slow.line.text[:LONGEST]},
        at=slow.before.time,
    )


def _category(case: Case) -> str:
    """Return the category of a rank that did not come to the others of a program of MPI alone."""
    settings = {(each.name, each.value) for each in case.job.of(Setting)}
    others = {"backend", "torch", "nccl"} & {name for name, _ in settings}
    return "mpi-missing-rank" if ("launcher", "mpirun") in settings and not others else ""
