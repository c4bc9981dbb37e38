"""The job's stores, read from outside: which processes have come to the rendezvous.

Each place where ranks or torchrun's agents are to meet is asked by a child process of its own
(``store_client.py``), which is given up when its time is over. It looks at the place as the
ranks do: in their network and with their names of hosts, where they live in namespaces of their
own. Nothing is set, added or waited for; the store sees a client come, ask and go.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

from whyhang.analyzer.model import Gap, Source, Who, replace
from whyhang.analyzer.model_meeting import StoreView
from whyhang.analyzer.redact import redact
from whyhang.collectors.live.descriptors import Sockets
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.store_places import Place
from whyhang.collectors.live.sockets import is_own, listeners, own_addresses

LIMIT = 3.0
"""Seconds for one store, from resolving its name to the last key."""

PROBING = 4.0
"""Seconds more for trying how large packets may be."""

GRACE = 0.5
"""Seconds beyond, after which a child that still runs is ended: resolving a name has no limit."""

MAX_GUESSES = 1024

VALUES = ("init/", "torch.rendezvous.", "torchelastic/", "store_based_barrier_key", "MASTER_")
"""Parts of the names of keys whose values are read: counts, addresses, who has joined."""

_RESOLVING = {"", "entering", "resolving"}


def client() -> subprocess.Popen[bytes]:
    """Start a child that waits to be told which store to ask. Raises ``OSError``."""
    script = Path(__file__).with_name("store_client.py")
    return subprocess.Popen(
        [sys.executable, "-I", "-S", str(script)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class Reading:
    """Stores that are being read, beside whatever else is done.

    ``ready`` is a child that was started beforehand, for the first of them.
    """

    def __init__(
        self,
        host: Host,
        found: Iterable[Place],
        limit: float = LIMIT,
        members: Iterable[int] = (),
        *,
        store: bool = True,
        probe: bool = False,
        ready: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._host = host
        self._store = store
        self._probe = probe
        self._grace = GRACE + (PROBING if probe else 0.0)
        self._members = tuple(members)
        self._limit = limit
        self._answers: list[tuple[Place, dict[str, object]]] = []
        self._threads: list[threading.Thread] = []
        for place in found:
            answer: dict[str, object] = {}
            self._answers.append((place, answer))
            # a daemon, so that nothing here keeps whyhang from ending
            thread = threading.Thread(target=self._ask, args=(place, answer, ready), daemon=True)
            self._threads.append(thread)
            thread.start()
            ready = None
        if ready is not None:
            ready.communicate()  # told nothing, it ends

    def _ask(
        self, place: Place, answer: dict[str, object], ready: subprocess.Popen[bytes] | None
    ) -> None:
        began = time.time()
        output = b""
        try:
            child = ready or client()
            try:
                task = json.dumps(self._task(place)).encode()
                output, _ = child.communicate(task, self._limit + self._grace)
            except subprocess.TimeoutExpired:
                child.kill()
                output, _ = child.communicate()
        except OSError as error:
            answer["outcome"], answer["why"] = "failed", error.strerror
        answer |= _told(output)
        answer["taken_at"], answer["seconds"] = began, round(time.time() - began, 3)

    def _task(self, place: Place) -> dict[str, object]:
        proc, pid = self._host.proc, place.pids[0]
        task: dict[str, object] = {
            "host": place.host,
            "port": place.port,
            "limit": self._limit,
            "guesses": _likely_keys(place.world_size),
            "values": VALUES,
            "store": self._store,
            "probe": self._probe,
        }
        for kind in ("net", "mnt"):
            theirs = proc.namespace(pid, kind)
            if theirs is not None and theirs != proc.link_of(f"self/ns/{kind}"):
                task[kind] = pid
        return task

    def pending(self) -> bool:
        """Tell whether some store has not answered yet."""
        return any(thread.is_alive() for thread in self._threads)

    def finish(
        self, hostname: str, sockets: Sockets
    ) -> tuple[list[StoreView], list[Gap], list[str]]:
        """Wait for the answers; give them, what is missing, and what was done."""
        until = time.monotonic() + self._limit + self._grace + GRACE
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        views, gaps, touched = [], [], []
        for place, answer in self._answers:
            view = self._with_network(_view(place, dict(answer), Who(host=hostname)), sockets)
            views.append(view)
            gap = _gap(view)
            if gap is not None:
                gaps.append(gap)
            if view.connected_to is not None:
                touched.append(
                    f"connected to the store at {view.host}:{view.port} as one more client and "
                    "asked for the names of its keys; nothing was set"
                    if self._store
                    else f"connected to {view.host}:{view.port} and said nothing"
                )
            trouble = answer.get("probe_trouble")
            if trouble is not None:
                gaps.append(_no_probe(view, str(trouble)))
            elif view.mtu is not None:
                touched.append(
                    f"sent up to three echo requests of up to {view.mtu} bytes to {view.host}"
                )
        return views, gaps, touched

    def _with_network(self, view: StoreView, sockets: Sockets) -> StoreView:
        """Add who listens there, and whether the address belongs to the processes' own network."""
        pid = view.asked_by[0]
        address = view.connected_to or next(iter(view.resolved), view.host)
        own = is_own(own_addresses(self._host.proc, pid), address)
        members = (*self._members, *view.asked_by)
        found = listeners(self._host, sockets, pid, view.port, members)
        network = self._host.proc.namespace(pid, "net")
        return replace(view, own_address=own, listeners=found, network=network)


def _likely_keys(world_size: int) -> list[str]:
    """Name the keys to ask for where a server cannot list them.

    ``init/`` counts who has come; a rank that is through the store has put its address for gloo
    there; the last is the id of the first NCCL communicator.
    """
    ranks = range(min(world_size, MAX_GUESSES))
    gloo = [f"/default_pg/0//cpu//0/{rank}" for rank in ranks]
    return ["init/", *gloo, "/default_pg/0//cuda//0"]


def _told(output: bytes) -> dict[str, object]:
    """Put together what the child printed, line by line."""
    told: dict[str, object] = {}
    values: dict[str, str] = {}
    for line in output.splitlines():
        try:
            found = json.loads(line)
        except ValueError:
            break  # cut off in the middle
        values |= found.pop("values", {})
        told |= found
    return {**told, "values": values}


def _view(place: Place, told: Mapping[str, object], who: Who) -> StoreView:
    stage = str(told.get("stage", ""))
    outcome = str(told.get("outcome", ""))
    if outcome in {"", "timeout"}:
        outcome = "silent" if stage == "greeting" else "unreachable"
        outcome = "unanswered" if stage in _RESOLVING else outcome
        outcome = "answered" if "num_keys" in told else outcome
    elif outcome == "closed" and "num_keys" in told:
        outcome = "answered"
    keys = told.get("keys")
    values = told.get("values")
    number = told.get("num_keys")
    moment, seconds = told.get("taken_at"), told.get("seconds")
    connected = told.get("connected_to")
    return StoreView(
        who=who,
        source=Source(file="stores.json"),
        host=place.host,
        port=place.port,
        outcome=outcome,
        why=redact(str(told.get("why") or "")),
        resolved=_texts(told.get("resolved")),
        connected_to=None if connected is None else str(connected),
        asked_by=place.pids,
        num_keys=number if isinstance(number, int) else None,
        keys=None if keys is None else tuple(key.removeprefix("/") for key in _texts(keys)),
        complete=bool(told.get("complete", True)),
        values={
            key.removeprefix("/"): _harmless(key, str(value))
            for key, value in (values.items() if isinstance(values, dict) else ())
        },
        mtu=_number(told.get("mtu")),
        echo_small=_truth(told.get("echo_small")),
        echo_large=_truth(told.get("echo_large")),
        taken_at=moment if isinstance(moment, float) else None,
        seconds=seconds if isinstance(seconds, float) else None,
    )


def _harmless(key: str, value: str) -> str:
    """Give a value for a person to read: a rendezvous's state is a pickle otherwise."""
    if "torch.rendezvous." not in key:
        return redact(value)
    from whyhang.collectors.live.probes import store_rendezvous as rendezvous  # noqa: PLC0415 - mostly there is none

    return rendezvous.readable(value) or redact(value)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _truth(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _texts(value: object) -> tuple[str, ...]:
    return tuple(redact(str(text)) for text in value) if isinstance(value, list) else ()


def _no_probe(view: StoreView, why: str) -> Gap:
    return Gap(
        what=f"pings to {view.host}",
        why=f"they could not be sent ({why})",
        cost="whether large packets come through is not known",
        remedy="run whyhang as root, or allow them with sysctl net.ipv4.ping_group_range",
    )


def _gap(view: StoreView) -> Gap | None:
    """Say what could not be learnt of a store, where that is not itself the finding."""
    what = f"the store at {view.host}:{view.port}"
    cost = "which ranks have joined is not known from it"
    if view.outcome == "elsewhere":
        return Gap(
            what=what,
            why=f"the job has a network of its own that this user may not enter ({view.why})",
            cost=cost,
            remedy="run whyhang as root, or inside the same container",
        )
    if view.outcome in {"failed", "closed"}:
        why = "it closed the connection" if view.outcome == "closed" else view.why
        return Gap(what=what, why=f"it could not be read ({why})", cost=cost)
    if view.outcome == "answered" and view.keys is None:
        return Gap(what=what, why="it did not list its keys in time", cost=cost)
    if view.outcome == "answered" and not view.complete:
        return Gap(
            what=what,
            why="its torch is too old to list the keys, so only likely ones were asked for",
            cost="keys of other groups and barriers are not known",
        )
    return None
