"""Line the ranks up: the state of each, and who waits for whom.

Nothing here knows what any particular hang is called.
"""

from collections.abc import Mapping
from functools import partial

from whyhang.analyzer.case import Case
from whyhang.analyzer.collectives import recorded_calls
from whyhang.analyzer.facts import Agent, Track, replace
from whyhang.analyzer.job.connections import Connections
from whyhang.analyzer.job.launch import agents_of, each_once
from whyhang.analyzer.job.records import Job
from whyhang.analyzer.job.world import at_least
from whyhang.analyzer.rank_state.beside_stacks import completed
from whyhang.analyzer.rank_state.from_logs.clocks import on_one_clock
from whyhang.analyzer.rank_state.from_logs.ends import End, ends_of
from whyhang.analyzer.rank_state.from_logs.log_ends import without_overcome
from whyhang.analyzer.rank_state.from_stacks.at_exit import gaps_beside, places_at_the_end
from whyhang.analyzer.rank_state.from_stacks.file_locks import with_loaders_locks, with_polled_locks
from whyhang.analyzer.rank_state.from_stacks.other_threads import (
    place_by_main_threads,
    place_by_working_threads,
)
from whyhang.analyzer.rank_state.from_stacks.states import (
    child_place,
    state_from_stacks,
    with_waits_for_setters,
    without_bystanders,
)
from whyhang.analyzer.rank_state.over_time.job_progress import with_growing_counters
from whyhang.analyzer.rank_state.over_time.long_steps import with_long_steps
from whyhang.analyzer.rank_state.over_time.recent import (
    AT_REST,
    LONG_AT_REST,
    since_all_at_rest,
    since_the_last_death,
)
from whyhang.analyzer.rank_state.records_beside import ranked_tracks, records_of
from whyhang.analyzer.rank_state.state import IN_STEP, RankState
from whyhang.analyzer.stacks import (
    PlaceOf,
    WaitKind,
    WaitRule,
    place_of,
    places_of,
    source_lines,
)
from whyhang.analyzer.wait_graph import calls_in_stacks, wait_graph


def align(job: Job, rules: tuple[WaitRule, ...]) -> Case:
    """Line the ranks up, stage by stage; each makes something of what those before it made.

    1. ``job``: without what is over, on one clock, and with who has the locks that ranks poll for.
    2. ``states``: where each rank stands, by its stacks; what they were missing for is no gap.
    3. Again from the first with the looks since all came to rest, if there are earlier ones.
    4. ``ends``: how ranks ended.
    5. ``tracks``: the calls of ranks, as recorded, and as stacks and ends prove them beside.
    6. ``calls``: the calls of all ranks, matched.
    7. ``states``: filled in by calls and ends where stacks say nothing, and with long steps.
    8. The case: with the agents of torchrun, and who waits for whom.
    """
    job = without_overcome(on_one_clock(since_the_last_death(job)))
    line_text = source_lines(job.excerpts)
    place = partial(place_of, rules=rules, line_text=line_text)
    job = with_loaders_locks(with_polled_locks(job, place), place)
    # What ranks at their end were missing for is no gap.
    last = places_at_the_end(job)
    job = replace(job, gaps=gaps_beside(job, last)) if last else job
    seen = [state_from_stacks(job, m, place, line_text, last.get(m.id)) for m in job.members]
    places = partial(places_of, rules=rules, line_text=line_text)
    seen = place_by_main_threads(job, place_by_working_threads(job, seen, places), places)
    states = without_bystanders(job, with_growing_counters(job, seen))
    states = with_waits_for_setters(states)
    at_rest = _looks_at_rest(job, states)
    if at_rest is not None:
        return align(at_rest, rules)
    ends = ends_of(job)
    tracks = _tracks(job, states, ends)
    calls = recorded_calls(tracks, job.groups, job.world_size or at_least(job))
    states = with_long_steps(job, completed(job, states, calls.positions, ends))
    agents = _agents(job, place)
    graph = wait_graph(job, states, calls)
    return Case(
        job=job,
        states=states,
        graph=graph,
        ends=ends,
        agents=agents,
        connections=Connections(job),
        text=line_text,
    )


def _looks_at_rest(job: Job, states: tuple[RankState, ...]) -> Job | None:
    """Return the job without the looks before all came to rest; None without such looks."""
    locked = {s.member for s in states if s.place and s.place.kind is WaitKind.LOCK}
    if job.absent or not all(s.status in IN_STEP or s.member in locked for s in states):
        return None  # somebody is left who could end the wait of the others
    return since_all_at_rest(job, LONG_AT_REST if locked else AT_REST)


def _tracks(job: Job, states: tuple[RankState, ...], ends: Mapping[int, End]) -> tuple[Track, ...]:
    tracks = ranked_tracks(job)
    tracks = (*tracks, *records_of(job, states, tracks, ends))
    return (*tracks, *calls_in_stacks(job, states, tracks))


def _agents(job: Job, place_of: PlaceOf) -> tuple[Agent, ...]:
    """Return the agents of torchrun, by what they print and by the stacks of launchers."""
    places = [child_place(one, place_of) for one in job.launchers]
    in_rendezvous = [place.kind is WaitKind.INIT if place else None for place in places]
    return each_once(job.agents, agents_of(job.launchers, in_rendezvous))
