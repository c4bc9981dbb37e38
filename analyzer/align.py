"""Line the ranks up: the state of each, and who waits for whom.

Nothing here knows what any particular hang is called.
"""

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import recorded_calls
from whyhang.analyzer.facts import replace
from whyhang.analyzer.job.launch import agents_of, each_once
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.job.world import at_least
from whyhang.analyzer.rank_state.beside_stacks import completed
from whyhang.analyzer.rank_state.from_logs.clocks import on_one_clock
from whyhang.analyzer.rank_state.from_logs.ends import ends_of
from whyhang.analyzer.rank_state.from_logs.log_ends import without_overcome
from whyhang.analyzer.rank_state.from_stacks.at_exit import gaps_beside, places_at_the_end
from whyhang.analyzer.rank_state.from_stacks.other_threads import (
    place_by_main_threads,
    place_by_working_threads,
)
from whyhang.analyzer.rank_state.from_stacks.polled_locks import with_polled_locks
from whyhang.analyzer.rank_state.from_stacks.states import (
    child_place,
    state_from_stacks,
    with_waits_for_setters,
    without_bystanders,
)
from whyhang.analyzer.rank_state.over_time.job_progress import IN_STEP, with_growing_counters
from whyhang.analyzer.rank_state.over_time.long_steps import with_long_steps
from whyhang.analyzer.rank_state.over_time.recent import (
    AT_REST,
    LONG_AT_REST,
    since_all_at_rest,
    since_the_last_death,
)
from whyhang.analyzer.rank_state.records_beside import ranked_tracks, records_of
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks import LineText, WaitKind, WaitRule, source_lines
from whyhang.analyzer.wait_graph import calls_in_stacks, wait_graph


def align(job: Job, rules: tuple[WaitRule, ...]) -> Case:
    """Return the state of every rank from all evidence, and the wait graph."""
    job = without_overcome(on_one_clock(since_the_last_death(job)))
    line_text = source_lines(job.excerpts)
    job = with_polled_locks(job, rules, line_text)
    job, states = _states_from_stacks(job, rules, line_text)
    if not job.absent and all(s.status in IN_STEP or _is_for_lock(s) for s in states):
        # nobody is left who could end the wait of the others
        locked = any(map(_is_for_lock, states))
        now = since_all_at_rest(job, LONG_AT_REST if locked else AT_REST)
        if now is not None:
            return align(now, rules)
    ends = ends_of(job)
    tracks = ranked_tracks(job)
    tracks = (*tracks, *records_of(job, states, tracks, ends))
    tracks = (*tracks, *calls_in_stacks(job, states, tracks))
    calls = recorded_calls(tracks, job.groups, job.world_size or at_least(job))
    states = with_long_steps(job, completed(job, states, calls.positions, ends))
    places = [child_place(one, rules, line_text) for one in job.launchers]
    in_rendezvous = [place.kind is WaitKind.INIT if place else None for place in places]
    return Case(
        job=job,
        states=states,
        graph=wait_graph(job, states, calls),
        ends=ends,
        agents=each_once(job.agents, agents_of(job.launchers, in_rendezvous)),
    )


def _is_for_lock(state: RankState) -> bool:
    return state.place is not None and state.place.kind is WaitKind.LOCK


def _states_from_stacks(
    job: Job, rules: tuple[WaitRule, ...], line_text: LineText
) -> tuple[Job, tuple[RankState, ...]]:
    """Place every member by its stacks; the job comes back without gaps that this fills."""
    last = places_at_the_end(job)
    job = replace(job, gaps=gaps_beside(job, last)) if last else job
    states = [state_from_stacks(job, m, rules, line_text, last.get(m.id)) for m in job.members]
    states = place_by_working_threads(job, states, rules, line_text)
    states = place_by_main_threads(job, states, rules, line_text)
    states = with_growing_counters(job, states)
    return job, with_waits_for_setters(without_bystanders(job, states))
