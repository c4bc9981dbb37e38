"""The job's stores, read from outside: which processes have come to the rendezvous.

Each place where ranks or torchrun's agents are to meet is asked by a child process of its own
(``store_client.py``), which is ended when its time is over. It looks at the place as the
ranks do: in their network and with their names of hosts, where they live in namespaces of their
own. Nothing is set, added or waited for; the store sees a client come, ask and go.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

from whyhang.analyzer.facts import Gap, Record, Source, StoreView, Who, replace
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.probes import store_rendezvous
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.probes.store_places import MeetingPlace, meeting_places
from whyhang.collectors.live.programs import Outcome, TimedCommand, run_all
from whyhang.collectors.live.sockets import Sockets, is_own, listeners, own_addresses

LIMIT = 3.0
"""Seconds for one store, from resolving its name to the last key."""

PROBING = 4.0
"""Seconds more for trying how large packets may be."""

GRACE = 0.5
"""Seconds beyond, after which a child that still runs is ended: resolving a name has no limit."""

MAX_GUESSES = 1024

VALUES = ("init/", "torch.rendezvous.", "torchelastic/", "store_based_barrier_key", "MASTER_")
"""Parts of the names of keys whose values are read: counts, addresses, who has joined."""


class _Reply(Record):
    """What the child has found out; see ``store_client.py``."""

    stage: str = ""
    outcome: str = ""
    why: str | None = None
    resolved: tuple[str, ...] = ()
    connected_to: str | None = None
    num_keys: int | None = None
    keys: tuple[str, ...] | None = None
    complete: bool = True
    values: dict[str, str] = {}
    mtu: int | None = None
    echo_small: bool | None = None
    echo_large: bool | None = None
    probe_trouble: str | None = None


_RESOLVING = {"", "entering", "resolving"}
_CLIENT = Path(__file__).with_name("store_client.py")


def collect(site: Site, collected: Collected) -> None:
    """Ask wherever the job's processes meet."""
    if site.options.store or site.options.probe:
        ask(site, meeting_places(site.host, site.job, site.processes, site.spots), collected)


def ask(site: Site, places: list[MeetingPlace], collected: Collected, limit: float = LIMIT) -> None:
    """Ask at these places, all at once."""
    grace = GRACE + (PROBING if site.options.probe else 0.0)
    commands = {_command(site, place, limit, grace): place for place in places}
    for outcome in run_all(commands, width=len(commands)):
        reply = _read_reply(outcome.output)
        view = _view(commands[outcome.command], outcome, reply, site.hostname)
        view = _with_network(site, view)
        collected.facts += [view, *_gaps(view, reply)]
        collected.touched += _touched(view, reply, asked=site.options.store)


def _command(site: Site, place: MeetingPlace, limit: float, grace: float) -> TimedCommand:
    task: dict[str, object] = {
        "host": place.host,
        "port": place.port,
        "limit": limit,
        "guesses": _likely_keys(place.world_size),
        "values": VALUES,
        "store": site.options.store,
        "probe": site.options.probe,
    }
    for kind in ("net", "mnt"):
        if site.host.proc.foreign(place.pids[0], kind):
            task[kind] = place.pids[0]
    arguments = (sys.executable, "-I", "-S", str(_CLIENT), json.dumps(task))
    return TimedCommand(arguments=arguments, limit=limit + grace)


def _likely_keys(world_size: int) -> list[str]:
    """Name the keys to ask for where a server cannot list them.

    ``init/`` counts who has come; a rank that is through the store has put its address for gloo
    there; the last is the id of the first NCCL communicator.
    """
    ranks = range(min(world_size, MAX_GUESSES))
    gloo = [f"/default_pg/0//cpu//0/{rank}" for rank in ranks]
    return ["init/", *gloo, "/default_pg/0//cuda//0"]


def _read_reply(output: bytes) -> _Reply:
    """Put together what the child printed, line by line."""
    fields: dict[str, object] = {}
    values: dict[str, str] = {}
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            break  # cut off in the middle
        values |= entry.pop("values", {})
        fields |= entry
    return msgspec.convert({**fields, "values": values}, type=_Reply)


def _view(place: MeetingPlace, outcome: Outcome, reply: _Reply, hostname: str) -> StoreView:
    not_started = outcome.code is None and not outcome.timed_out
    ended = "failed" if not_started else reply.outcome
    if ended in {"", "timeout"}:
        ended = "silent" if reply.stage == "greeting" else "unreachable"
        ended = "unanswered" if reply.stage in _RESOLVING else ended
        ended = "answered" if reply.num_keys is not None else ended
    elif ended == "closed" and reply.num_keys is not None:
        ended = "answered"
    keys = None if reply.keys is None else (redact(key) for key in reply.keys)
    return StoreView(
        who=Who(host=hostname),
        source=Source(file="stores.json"),
        host=place.host,
        port=place.port,
        outcome=ended,
        why=redact(outcome.errors if not_started else reply.why or ""),
        resolved=tuple(redact(address) for address in reply.resolved),
        connected_to=reply.connected_to,
        asked_by=place.pids,
        num_keys=reply.num_keys,
        keys=None if keys is None else tuple(key.removeprefix("/") for key in keys),
        complete=reply.complete,
        values={key.removeprefix("/"): _harmless(key, text) for key, text in reply.values.items()},
        mtu=reply.mtu,
        echo_small=reply.echo_small,
        echo_large=reply.echo_large,
        taken_at=outcome.began,
        seconds=round(outcome.seconds, 3),
    )


def _with_network(site: Site, view: StoreView) -> StoreView:
    """Add who listens there, and whether the address belongs to the processes' own network."""
    pid, host = view.asked_by[0], site.host
    address = view.connected_to or next(iter(view.resolved), view.host)
    members = (*(member.pid for member in site.job.members), *view.asked_by)
    return replace(
        view,
        own_address=is_own(own_addresses(host.proc, pid), address),
        listeners=listeners(host, Sockets(host.proc), pid, view.port, members),
        network=host.proc.namespace(pid, "net"),
    )


def _harmless(key: str, value: str) -> str:
    """Return a value for a person to read: a rendezvous's state is a pickle otherwise."""
    state = store_rendezvous.readable(value) if "torch.rendezvous." in key else None
    return state or redact(value)


def _touched(view: StoreView, reply: _Reply, *, asked: bool) -> Iterator[str]:
    """Say what was done to the store and its host."""
    place = f"{view.host}:{view.port}"
    if view.connected_to is not None and asked:
        yield (
            f"connected to the store at {place} as one more client and asked for the names of its "
            "keys; nothing was set"
        )
    elif view.connected_to is not None:
        yield f"connected to {place} and said nothing"
    if view.mtu is not None and reply.probe_trouble is None:
        yield f"sent up to three echo requests of up to {view.mtu} bytes to {view.host}"


def _gaps(view: StoreView, reply: _Reply) -> Iterator[Gap]:
    """Say what could not be learnt of a store, where that is not itself the finding."""
    why, cost, remedy = "", "which ranks have joined is not known from it", ""
    if view.outcome == "elsewhere":
        why = f"the job has a network of its own that this user may not enter ({view.why})"
        remedy = "run whyhang as root, or inside the same container"
    elif view.outcome == "closed":
        why = "it could not be read (it closed the connection)"
    elif view.outcome == "failed":
        why = f"it could not be read ({view.why})"
    elif view.outcome == "answered" and view.keys is None:
        why = "it did not list its keys in time"
    elif view.outcome == "answered" and not view.complete:
        why = "its torch is too old to list the keys, so only likely ones were asked for"
        cost = "keys of other groups and barriers are not known"
    if why:
        what = f"the store at {view.host}:{view.port}"
        yield Gap(what=what, why=why, cost=cost, remedy=remedy)
    if reply.probe_trouble is not None:
        yield Gap(
            what=f"pings to {view.host}",
            why=f"they could not be sent ({reply.probe_trouble})",
            cost="whether large packets come through is not known",
            remedy="run whyhang as root, or allow them with sysctl net.ipv4.ping_group_range",
        )


PROBE = Probe(name="the job's store", limit=LIMIT + GRACE + PROBING + 1.0, collect=collect)
