"""torchrun's agents meet before any rank exists: some wait for others, or were sent elsewhere."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Literal

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Agent, counted, grouped, ranks_in_words, replace
from whyhang.analyzer.facts.stacks import main_thread
from whyhang.analyzer.findings.signature import CLEAR, GUESSED, INDIRECT, Hit
from whyhang.analyzer.job.records import Child
from whyhang.analyzer.job.slurm_hosts import other_hosts
from whyhang.analyzer.job.store_keys import Round, round_of
from whyhang.analyzer.queries.registry import query
from whyhang.analyzer.report import Evidence, cite
from whyhang.analyzer.stacks.usercode import short

MAX_QUOTES = 4
OPENS_STORE = "_create_tcp_store_server"  # of torch/distributed/elastic/rendezvous


def _differ(case: Case) -> Iterator[Hit]:
    """Yield one hit for agents that were given different places, names or sizes of their meeting.

    The ones that differ from the most are named, a tie names nobody.
    """
    meeting = [a for a in case.agents if a.meeting and a.backend and a.endpoint]
    given = {id(a): (a.backend, a.endpoint, a.run_id, a.min_nodes, a.max_nodes) for a in meeting}
    counts = Counter(given.values()).most_common()
    if len(counts) < 2:
        return
    usual, most = counts[0]
    tie = counts[1][1] == most
    odd = [agent for agent in meeting if given[id(agent)] != usual]
    even = [agent for agent in meeting if given[id(agent)] == usual]
    names = ("rdzv-backend", "rdzv-endpoint", "rdzv-id", "least nodes", "most nodes")
    differing = [
        (name, mine, its)
        for name, mine, its in zip(names, given[id(odd[0])], usual, strict=True)
        if mine != its
    ]
    yield Hit(
        evidence=(*_quotes(odd), *_quotes(even), *_stacks(case, odd[:1])),
        names_culprit=False,
        fields={
            "who": _names(odd),
            "others": _names(even),
            "theirs": ", ".join(f"{name} {mine}" for name, mine, _ in differing),
            "usual": ", ".join(f"{name} {its}" for name, _, its in differing),
            "tie": "" if not tie else " Which of them is right cannot be seen.",
        },
    )


def _opens_store(case: Case, agent: Agent) -> bool:
    """Return whether an agent was seen to open that store only, which is done in no time."""
    dumps = [d for one in case.job.launchers if _is_of(one, agent) for d in one.dumps]
    stacks = [thread.frames for dump in dumps if (thread := main_thread(dump)) is not None]
    return bool(stacks) and all(
        any(frame.function.endswith(OPENS_STORE) for frame in frames) for frames in stacks
    )


def _waiting(case: Case, *, reached: bool) -> Iterator[Hit]:
    """Yield one hit per meeting of agents that wait for other nodes, while no rank was started.

    It names ranks only where node numbers tell which. ``reached``: only where the meeting place is
    reached, or only where it is not.
    """
    if any(member.processes for member in case.job.members):
        return
    waiting = (
        agent
        for agent in case.agents
        if agent.meeting and (agent.reached is not False) is reached
        # else no other node is waited for
        if not (_opens_store(case, agent) or (reached and agent.max_nodes == 1))
    )
    for agents in grouped(waiting, lambda a: (a.endpoint, a.run_id, a.max_nodes)).values():
        yield _hit(case, agents, reached=reached)


def _hit(case: Case, agents: list[Agent], *, reached: bool) -> Hit:
    first = agents[0]
    state = _round(case, first)
    here = max([len({(a.who.host, a.who.pid) for a in agents}), *(a.joined or 0 for a in agents)])
    if state is not None:
        here = len(state.nodes)
    missing = _missing_nodes(agents)
    ranks = tuple(
        node * first.per_node + local
        for node in missing
        for local in range(first.per_node or 0)
        if first.per_node is not None
    )
    there = state.hosts if state is not None else ()
    hosts = other_hosts(
        [*(a.who.host for a in agents), *there, *(name.partition(".")[0] for name in there)],
        [child.environ for child in case.job.launchers if child.processes],
    )
    least, most = first.min_nodes, first.max_nodes
    count = str(least) if least == most else f"{least} to {most}"
    nodes = "node" if count == "1" else "nodes"
    at = f" at {first.endpoint}" if first.endpoint else ""
    again = max(agent.restarts or 0 for agent in agents)
    fields = {
        "who": _names(agents),
        "reaches": "does" if len(agents) == 1 else "do",
        "pid": str(first.who.pid) if first.who.pid is not None else "PID",
        "come": _come(here, agents, state),
        "wanted": "more nodes" if least is None else f"{count} {nodes}",
        "at": at,
        "id": f" (rdzv-id {first.run_id})" if first.run_id not in {None, "none"} else "",
        "kind": first.backend or "torchrun",
        "missing": _missing_words(missing, ranks, hosts),
        "restarts": f" It has restarted its ranks {counted(again, 'time')}." if again else "",
        "endpoint": first.endpoint or "the endpoint",
    }
    too_few = least is not None and here < least
    return Hit(
        ranks=ranks if reached else (),
        evidence=(*_quotes(agents), *_round_quote(case, first), *_stacks(case, agents)),
        names_culprit=reached and bool(ranks),
        # a rank that died before its agent came back to the rendezvous is the better answer
        strength=(CLEAR if too_few else INDIRECT) * (GUESSED if case.job.exits else CLEAR),
        fields=fields,
    )


def _come(here: int, agents: list[Agent], state: Round | None) -> str:
    """Return how many nodes have come; where only this host was seen, that these are all."""
    has = "has" if here == 1 else "have"
    if state is not None:
        nodes = ", ".join(state.nodes[:4]) + (", …" if here > 4 else "")
        too_late = ", ".join(state.waiting[:4])
        words = f"{here} {has} come ({nodes})" if nodes else "none has come"
        words += " and that round is complete" if state.complete else ""
        return words + (f"; {too_late} came too late for it" if too_late else "")
    if any(agent.joined is not None for agent in agents):
        return f"{here} {has} come"
    return f"fewer have come ({here} {'is' if here == 1 else 'are'} seen here)"


def _round(case: Case, agent: Agent) -> Round | None:
    """Return what the store of a c10d rendezvous says of the meeting that an agent was sent to."""
    port = (agent.endpoint or "").rpartition(":")[2]
    for view in case.job.stores:
        if agent.backend == "c10d" and str(view.port) == port:
            state = round_of(view, agent.run_id or "none")
            if state is not None:
                return state
    return None


def _round_quote(case: Case, agent: Agent) -> list[Evidence]:
    state = _round(case, agent)
    if state is None:
        return []
    words = f"round {state.round}, complete: {state.complete}, nodes: {', '.join(state.nodes)}"
    source = next(view.source for view in case.job.stores)
    return [cite(source, f"torch.rendezvous.{agent.run_id or 'none'}: {words}")]


def _missing_nodes(agents: list[Agent]) -> tuple[int, ...]:
    """List the node numbers that are not there; only a static rendezvous gives numbers.

    Only its first node knows who is connected, and that by number only where all who are
    connected were looked at: of a node whose log is not at hand it is not known.
    """
    first = agents[0]
    numbers = {agent.node_rank for agent in agents if agent.node_rank is not None}
    joined = max((agent.joined for agent in agents if agent.joined is not None), default=None)
    if first.backend != "static" or first.max_nodes is None or joined is None:
        return ()
    if joined > len(numbers):
        return ()
    return tuple(node for node in range(first.max_nodes) if node not in numbers)


def _missing_words(nodes: tuple[int, ...], ranks: tuple[int, ...], hosts: tuple[str, ...]) -> str:
    words = ""
    if nodes:
        words = f"node{'s' if len(nodes) > 1 else ''} {', '.join(map(str, nodes))}"
        words += f" ({ranks_in_words(ranks)})" if ranks else ""
        words = f"; {words} {'have' if len(nodes) > 1 else 'has'} not come"
    if hosts:
        words += f"; the job also has {', '.join(hosts)}, which was not looked at"
    return words


def _names(agents: list[Agent]) -> str:
    """Name up to three agents: by node, or by host with their pids."""
    more = ["…"] if len(agents) > 3 else []
    shown = agents[:3]
    if all(agent.node_rank is not None for agent in shown):
        names = [f"of node {agent.node_rank} ({_pid(agent)}{_on(agent)})" for agent in shown]
        return "torchrun " + ", ".join([*names, *more])
    names = [f"{', '.join(map(_pid, own))}{host}" for host, own in grouped(shown, _on).items()]
    return f"torchrun ({'; '.join([*names, *more])})"


def _is_of(launcher: Child, agent: Agent) -> bool:
    """Return whether a launcher is the process of an agent, by its host and pid."""
    hosts = {agent.who.host, *(process.who.host for process in launcher.processes)} - {None}
    return launcher.pid == agent.who.pid and len(hosts) < 2


def _pid(agent: Agent) -> str:
    return f"pid {agent.who.pid}" if agent.who.pid is not None else agent.source.file


def _on(agent: Agent) -> str:
    return f" on {agent.who.host}" if agent.who.host else ""


def _quotes(agents: list[Agent]) -> list[Evidence]:
    return [cite(agent.source, agent.quote) for agent in agents[:MAX_QUOTES]]


def _stacks(case: Case, agents: list[Agent]) -> list[Evidence]:
    """Cite the frame in which each agent stands, where stacks were taken."""
    evidence = []
    for launcher in case.job.launchers:
        frames = [frame for frame in launcher.main_frames() if "rendezvous" in frame.file]
        if frames and any(_is_of(launcher, agent) for agent in agents):
            frame = next((f for f in frames if f.function.endswith(OPENS_STORE)), frames[-1])
            quote = str(replace(frame, file=short(frame.file)))
            evidence.append(Evidence(source=launcher.dumps[-1].source.file, quote=quote))
    return evidence[:MAX_QUOTES]


@query
def agents(
    case: Case, how: Literal["wait", "not-connected", "at-own-store", "differ"]
) -> Iterable[Hit]:
    """Yield hits for torchrun's agents that wait for nodes, or were sent to different ones.

    One opens the store of its own ranks, where no rank was started.
    """
    if how in {"wait", "not-connected"}:
        return _waiting(case, reached=how == "wait")
    if how == "differ":
        return _differ(case)
    if any(member.processes for member in case.job.members):
        return ()
    alone = (agent for agent in case.agents if _opens_store(case, agent))
    return [replace(_hit(case, [agent], reached=False), strength=CLEAR) for agent in alone]
