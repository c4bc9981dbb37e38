"""On which hosts to look at a job: plan, dry run, and the look itself."""

import argparse
import contextlib
import shlex
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

from whyhang.analyzer.commands import live_options
from whyhang.analyzer.commands.progress_display import Progress
from whyhang.analyzer.commands.questions import Observed
from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import counted, replace
from whyhang.analyzer.reports.outgoing import plain
from whyhang.collectors.hosts import payload
from whyhang.collectors.hosts.connections import Connections
from whyhang.collectors.hosts.conversation import Conversation
from whyhang.collectors.hosts.planners import kubernetes, local, ray, slurm, ssh
from whyhang.collectors.hosts.reach import Reach, Selector, selector_of
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Options
from whyhang.collectors.live.proc import Proc

LIMIT = 30.0  # seconds for all hosts together beside the looks, where --timeout says nothing
USUAL = 1.0  # seconds between the looks, where neither --looks nor --interval is given
GRAB = 15.0  # seconds for each single grab, likewise

NAME, THERE = "NAME", "COMMAND"
"""What a dry run writes for the name of each host, and for what runs there."""

HERE = Reach(kind="local", sentence="this host", hosts=())


def to_reach(pids: Sequence[int], options: argparse.Namespace) -> Iterator[tuple[int, Reach]]:
    """Yield on which hosts to look, with a process here, one job after the other.

    The options say where, for all processes as one job; else each job of these processes, which
    may be on this host alone (``HERE``). Raises ``TargetError``.
    """
    if live_options.given_hosts(options) is not None or not pids:
        yield (pids[0] if pids else 0), _by_options(pids, options)
        return
    seen: set[int] = set()
    for pid in pids:
        if pid in seen:
            continue
        yield pid, (None if options.local else _of_process(pid)) or HERE
        if len(pids) > 1:
            seen |= {member.pid for member in find_job(Host(Proc()), pid).members}


def _by_options(pids: Sequence[int], options: argparse.Namespace) -> Reach:
    match live_options.given_hosts(options):
        case "hosts":
            named = replace(ssh.reach(options.hosts), selector=_selector(pids))
            return local.with_own_host(named, pids) if pids else named
        case "slurm":
            return slurm.reach(slurm.named(options.slurm))
        case "k8s":
            pods = kubernetes.Pods(
                selector=options.k8s,
                namespace=options.namespace,
                container=options.container,
                debug_image=options.k8s_debug,
            )
            return kubernetes.reach(pods)
        case "ray":
            return ray.reach(options.ray)
        case _:
            return HERE


def _of_process(pid: int) -> Reach | None:
    """Return where the job of a process here runs; None where that is this host alone."""
    host = Host(Proc())
    stat = host.stats.get(pid)
    step = slurm.of_process(host.environ(pid))
    if step is None and stat is not None and stat.comm == "srun":
        step = slurm.started_by(pid)
    if step is not None:
        try:
            there = slurm.reach(step)
        except TargetError as error:
            sys.stderr.write(f"whyhang: not by Slurm, then: {plain(error.message)}\n")
        else:
            return there if len(there.hosts) > 1 else None
    return local.reach(host, find_job(host, pid))


def _selector(pids: Sequence[int]) -> Selector:
    """Return what tells the job of a process here; without one, every job is meant."""
    for pid in pids:
        host = Host(Proc())
        if ranks := find_job(host, pid).ranks:
            return selector_of(host, ranks[0].pid)
    return Selector()


def dry_run(pids: Sequence[int], options: argparse.Namespace) -> str:
    """Return what would be reached, and by which commands; each command once."""
    return "".join(f"{plain(line)}\n" for _, r in to_reach(pids, options) for line in _plan(r))


def _plan(reach: Reach) -> Iterator[str]:
    yield reach.sentence
    names: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for host in reach.hosts:
        way = reach.together or tuple(NAME if word == host.name else word for word in host.argv)
        names[way].append(host.name)
    for way, those in names.items():
        if NAME in way and len(those) > 1:
            yield f"{', '.join(those)}: {NAME} is each of these: {shlex.join((*way, THERE))}"
        else:
            words = (those[0] if word == NAME else word for word in (*way, THERE))
            yield f"{', '.join(those)}: {shlex.join(words)}"
    if reach.hosts:
        yield f"{THERE} is {shlex.join(payload.words())}"
    yield from (f"not reached: {gap}" for gap in reach.gaps)


@contextlib.contextmanager
def looked_at(
    reach: Reach, options: argparse.Namespace, patterns: Iterable[str], progress: Progress
) -> Iterator[tuple[Observed, bool]]:
    """Look at a job on all hosts; give it, and whether Ctrl-C ended the looking.

    ``patterns`` are those of the log lines that hosts send. Raises ``TargetError`` where no host
    brings anything.
    """
    sys.stderr.write(f"whyhang: looking at {plain(reach.sentence)}\n")
    looking = max(0.0, (options.looks - 1) * options.interval - USUAL)
    limit = options.timeout if options.timeout is not None else LIMIT + looking
    with Connections(reach, limit, progress.say) as connections:
        talk = Conversation(
            connections, capture_options(options), patterns=patterns, whole=options.whole_logs
        )
        try:
            talk.find()
            if talk.interrupted:
                ready = counted(len(connections.ready), "host")
                interrupted = f"whyhang: interrupted; looking at the {ready} that answered"
                sys.stderr.write(f"{interrupted} (Ctrl-C again ends it)\n")
            talk.look()
        except KeyboardInterrupt:
            if not talk.parts.hosts:
                raise
            talk.interrupted = True
        if reach.hosts and not talk.parts.hosts:
            raise _nothing(talk)
        yield talk, talk.interrupted


def capture_options(options: argparse.Namespace) -> Options:
    """Return how to look, as the options say."""
    return Options(
        looks=options.looks,
        interval=options.interval,
        limit=GRAB if options.timeout is None else options.timeout,
        native=options.native == "always",
        ask=options.ask_recorders,
        debug_server=options.debug_server,
        store=not options.no_store,
        probe=options.probe,
    )


def _nothing(talk: Conversation) -> TargetError:
    alike: dict[tuple[str, str], list[str]] = defaultdict(list)
    for host in talk.connections.hosts:
        if host.gap is not None:
            alike[host.gap.why, host.gap.remedy].append(host.name)
    reasons = [f"{', '.join(names[:8])}: {why}" for (why, _), names in alike.items()]
    remedy = next((remedy for _, remedy in alike if remedy), "")
    return TargetError(
        f"no host could be looked at: {'; '.join(reasons[:6])}", remedy and f"{remedy}."
    )
