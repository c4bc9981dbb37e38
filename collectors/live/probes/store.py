"""The job's stores, read from outside: which processes have come to the rendezvous.

Each place where ranks or torchrun's agents are to meet is asked by a child process of its own
(``store_client.py``), which is ended when its time is over. It looks at the place as the
ranks do: in their network and with their names of hosts, where they live in namespaces of their
own. Nothing is set, added or waited for; the store sees a client come, ask and go.

The value of ``torch.rendezvous.<rdzv-id>``, who has come to which round, is a pickled
``_RendezvousState`` in base64 (torch 1.9 to 2.15, dynamic_rendezvous.py): nodes are
``_NodeDesc(addr, pid, local_id)``. Its operations are listed, not run: no class is looked up and
nothing is called. What is wanted stands in it as texts, numbers and booleans in a row, each name
before its value.
"""

import base64
import itertools
import json
import pickletools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeAlias

from whyhang.analyzer.facts import Gap, Source, StoreView, Who
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.probes.store_places import MeetingPlace, meeting_places
from whyhang.collectors.live.programs import Outcome, TimedCommand, run_all
from whyhang.collectors.live.sockets import Sockets, is_own, listeners, own_addresses
from whyhang.collectors.live.words import gap

LIMIT = 3.0
"""Seconds for one store, from resolving its name to the last key."""

PROBING = 4.0
"""Seconds more for trying how large packets may be."""

GRACE = 0.5
"""Seconds beyond, after which a child that still runs is ended: resolving a name has no limit."""

MAX_GUESSES = 1024

VALUES = ("init/", "torch.rendezvous.", "torchelastic/", "store_based_barrier_key", "MASTER_")
"""Parts of the names of keys whose values are read: counts, addresses, who has joined."""


MAX_STATE = 1 << 20
MAX_OPERATIONS = 200_000
"""Bytes and operations of the state of a rendezvous."""

_Atom: TypeAlias = "str | bytes | float | None"
_CONSTANTS: dict[str, _Atom] = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_NODES = {"participants": "nodes", "wait_list": "waiting", "redundancy_list": "spare"}
_RESOLVING = {"", "entering", "resolving"}
_TOLD = ("connected_to", "num_keys", "mtu", "echo_small", "echo_large")
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
        said = _printed(outcome.output)
        view = _view(site, commands[outcome.command], outcome, said)
        collected.facts += [view, *_gaps(view, said.get("probe_trouble"))]
        collected.touched += _touched(view, said.get("probe_trouble"), asked=site.options.store)


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


def _printed(output: bytes) -> dict[str, Any]:
    """Put together what the child printed, line by line; see ``store_client.py``."""
    said: dict[str, Any] = {"values": {}}
    for line in output.splitlines():
        try:
            entry = json.loads(line)
        except ValueError:
            break  # cut off in the middle
        values = said["values"] | entry.pop("values", {})
        said |= {**entry, "values": values}
    return said


def _view(site: Site, place: MeetingPlace, outcome: Outcome, said: dict[str, Any]) -> StoreView:
    """Say what the store told, who listens there, and whether that is in the network of its ranks.

    A rendezvous's state is a pickle, which is put so that a person can read it.
    """
    host, pid = site.host, place.pids[0]
    started = outcome.code is not None or outcome.timed_out
    resolved, keys = said.get("resolved", ()), said.get("keys")
    address = said.get("connected_to") or next(iter(resolved), place.host)
    members = (*(member.pid for member in site.job.members), *place.pids)
    return StoreView(
        who=Who(host=site.hostname),
        source=Source(file="stores.json"),
        host=place.host,
        port=place.port,
        outcome=_outcome(said) if started else "failed",
        why=redact((said.get("why") or "") if started else outcome.errors),
        resolved=tuple(map(redact, resolved)),
        asked_by=place.pids,
        keys=None if keys is None else tuple(redact(key).removeprefix("/") for key in keys),
        complete=said.get("complete", True),
        values={
            key.removeprefix("/"): ("torch.rendezvous." in key and readable(text)) or redact(text)
            for key, text in said["values"].items()
        },
        listeners=listeners(host, Sockets(host.proc), pid, place.port, members),
        own_address=is_own(own_addresses(host.proc, pid), address),
        network=host.proc.namespace(pid, "net"),
        **{name: said.get(name) for name in _TOLD},
    )


def _outcome(said: dict[str, Any]) -> str:
    """Say what came of it, also where the time was up or the store hung up."""
    outcome, stage = said.get("outcome", ""), said.get("stage", "")
    if outcome not in {"", "timeout", "closed"}:
        return str(outcome)
    if "num_keys" in said:
        return "answered"
    if outcome == "closed":
        return "closed"
    if stage in _RESOLVING:
        return "unanswered"
    return "silent" if stage == "greeting" else "unreachable"


def _touched(view: StoreView, no_ping: str | None, *, asked: bool) -> Iterator[str]:
    """Say what was done to the store and its host."""
    place = f"{view.host}:{view.port}"
    if view.connected_to is not None and asked:
        yield (
            f"connected to the store at {place} as one more client and asked for the names of its "
            "keys; nothing was set"
        )
    elif view.connected_to is not None:
        yield f"connected to {place} and said nothing"
    if view.mtu is not None and no_ping is None:
        yield f"sent up to three echo requests of up to {view.mtu} bytes to {view.host}"


def _gaps(view: StoreView, no_ping: str | None) -> Iterator[Gap]:
    """Say what could not be learnt of a store, where that is not itself the finding."""
    trouble = view.outcome if view.outcome in {"elsewhere", "closed", "failed"} else ""
    if view.outcome == "answered" and view.keys is None:
        trouble = "slow"
    elif view.outcome == "answered" and not view.complete:
        trouble = "old"
    if trouble:
        yield gap(f"store-{trouble}", place=f"{view.host}:{view.port}", why=view.why)
    if no_ping is not None:
        yield gap("pings", host=view.host, why=no_ping)


def readable(value: str) -> str | None:
    """Return the state as JSON: round, complete, closed, and the nodes "host pid" by standing.

    None where the value is no such state.
    """
    fields: dict[str, _Atom] = {}
    nodes: dict[str, list[str]] = {name: [] for name in _NODES.values()}
    section, address = "", ""
    try:
        atoms = list(_atoms(base64.b64decode(value[: 2 * MAX_STATE], validate=True)))
        for name, after in itertools.pairwise(atoms):
            if name in {"round", "complete", "closed"}:
                fields.setdefault(str(name), after)
            elif name in {*_NODES, "last_heartbeats"}:
                section = _NODES.get(str(name), "")
            elif name == "addr":
                address = str(after)
            elif name == "pid" and section:
                nodes[section].append(f"{address} {int(after or 0)}")
        state = {
            "round": int(fields["round"] or 0),
            "complete": bool(fields["complete"]),
            "closed": bool(fields["closed"]),
            **nodes,
        }
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return json.dumps(state)


def _atoms(data: bytes) -> Iterator[_Atom]:
    """Yield texts, numbers and constants of a pickle in their order, also those told before."""
    memo: dict[object, _Atom] = {}
    last: _Atom = None  # what MEMOIZE keeps: a text, or None in the place of what is built
    for count, (operation, argument, _) in enumerate(pickletools.genops(data)):
        name = operation.name
        if count > MAX_OPERATIONS:
            raise ValueError("too long")
        if name in {"MEMOIZE", "BINPUT", "LONG_BINPUT"}:
            memo[len(memo) if argument is None else argument] = last
        elif name in {"BINGET", "LONG_BINGET"}:
            last = memo[argument]
            if last is not None:
                yield last
        elif name in _CONSTANTS:
            yield _CONSTANTS[name]
        elif name not in {"PROTO", "FRAME", "GLOBAL"} and argument is not None:
            last = argument
            yield argument
        else:
            last = None


PROBE = Probe(name="the job's store", limit=LIMIT + GRACE + PROBING + 1.0, collect=collect)
