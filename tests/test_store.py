"""The job's store, read from outside: what is asked, what comes of it, and how long it takes."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable

import pytest
from fake_proc import FakeProc, elastic
from live_sites import site_of
from store_server import FakeStore, listening

from whyhang.analyzer.facts import Gap, Process, Role, Source, StoreView, ThreadState, Who
from whyhang.analyzer.job import store_keys
from whyhang.collectors import READERS
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, documents_of
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.files.own_files import facts_file
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.probes.probe import Collected
from whyhang.collectors.live.probes.store import ask
from whyhang.collectors.live.probes.store_places import MeetingPlace, meeting_places
from whyhang.collectors.live.proc import Proc

KEYS = {
    "init/": b"3",
    "/default_pg/0//cpu//0/1": b"address",
    "/default_pg/0//cpu//0/0": b"address",
    "/default_pg/0//1//cpu//0/0": b"address",
    "/default_pg/0//cuda//0": b"id",
    "/default_pg/0//password": b"hunter2",
}


def view_of(
    port: int, *, host: str = "127.0.0.1", limit: float = 5.0
) -> tuple[StoreView, list[Gap]]:
    place = MeetingPlace(host=host, port=port, pids=(os.getpid(),), world_size=4)
    evidence = Collected()
    ask(site_of(Host(Proc())), [place], evidence, limit)
    (view,) = (fact for fact in evidence.facts if isinstance(fact, StoreView))
    return view, [fact for fact in evidence.facts if isinstance(fact, Gap)]


def test_the_keys_of_a_store_are_listed_and_only_harmless_values_read() -> None:
    """Counts are read; what a program keeps there is not."""
    with listening(FakeStore(KEYS).serve) as port:
        view, gaps = view_of(port)

    assert view.outcome == "answered"
    assert not gaps
    assert view.num_keys == len(KEYS)
    assert view.keys is not None
    assert sorted(view.keys) == sorted(key.removeprefix("/") for key in KEYS)
    assert view.values == {"init/": "3"}


def test_nothing_but_questions_is_asked() -> None:
    """No query of the protocol that sets, adds or waits is ever sent."""
    store = FakeStore(KEYS)
    with listening(store.serve) as port:
        view_of(port)

    assert set(store.asked) == {"validate", "ping", "getnumkeys", "list_keys", "check", "get"}
    assert store.keys == KEYS


def test_a_server_that_cannot_list_is_asked_for_the_keys_that_ranks_put_there() -> None:
    """Older versions of torch close the connection at a query that they do not know."""
    with listening(FakeStore(KEYS, lists=False).serve) as port:
        view, gaps = view_of(port)

    assert (view.outcome, view.complete, view.num_keys) == ("answered", False, len(KEYS))
    assert store_keys.joined(view)[0].ranks == (0, 1)
    assert view.values == {"init/": "3"}
    assert "too old to list" in gaps[0].why


@pytest.mark.parametrize(
    ("serve", "outcome", "why"),
    [
        (lambda c: time.sleep(2), "silent", ""),
        (lambda c: c.sendall(b"SSH-2.0-OpenSSH_9.2\r\n"), "stranger", "SSH-2.0-OpenSSH_9.2"),
        (lambda c: (c.recv(99), c.sendall(b"HTTP/1.1 400 Bad")), "stranger", "HTTP/1.1 400"),
        (lambda c: c.recv(99), "closed", ""),
    ],
    ids=["silent", "ssh", "http", "hangs up"],
)  # fmt: skip
def test_what_is_no_store_is_distinguished_from_one(
    serve: Callable[[socket.socket], object], outcome: str, why: str
) -> None:
    """Silence, another protocol and hanging up each have a name, within the limit."""
    with listening(serve) as port:
        began = time.monotonic()
        view, _ = view_of(port, limit=0.4)

    assert view.outcome == outcome
    assert why in view.why
    assert time.monotonic() - began < 2.5


def test_a_closed_port_is_refused() -> None:
    """Nothing listens there."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

    assert view_of(port)[0].outcome == "refused"


def test_a_store_that_stops_answering_half_way_costs_no_more_than_the_limit() -> None:
    """A master may be stopped at any moment."""
    done = threading.Event()

    def serve(connection: socket.socket) -> None:
        connection.recv(99)
        connection.sendall(b"\xff\xff\xff\xff")
        connection.recv(99)
        connection.sendall(b"\x05\0\0\0\0\0\0\0")
        done.wait(3)

    with listening(serve) as port:
        began = time.monotonic()
        view, gaps = view_of(port, limit=0.4)
    done.set()

    assert (view.outcome, view.num_keys, view.keys) == ("answered", 5, None)
    assert "did not list its keys in time" in gaps[0].why
    assert time.monotonic() - began < 2.5


def test_keys_tell_who_joined_which_group() -> None:
    """The default group is told from groups made of it, and addresses from other keys."""
    view = StoreView(
        who=Who(), source=Source(file="x"), host="h", port=1, outcome="answered",
        keys=tuple(key.removeprefix("/") for key in KEYS),
        values={"init/": "3", "default_pg/store_based_barrier_key:2": "5"},
    )  # fmt: skip

    default, other = store_keys.joined(view)
    assert (default.default, default.ranks) == (True, (0, 1))
    assert (other.default, other.ranks) == (False, (0,))
    assert store_keys.clients(view) == 3


def test_a_view_is_read_back_from_a_bundle_as_it_was() -> None:
    """A saved look gives the same facts."""
    view = StoreView(
        who=Who(host="n"), source=Source(file="n/stores.json", line=5), host="h", port=1,
        outcome="answered", keys=("a",), values={"init/": "1"}, asked_by=(7,),
    )  # fmt: skip
    bundle = Bundle(
        manifest=Manifest(files=(Entry(path="n/stores.json", kind="stores"),)),
        files={"n/stores.json": facts_file("stores", [view])},
    )

    assert list(read_documents(documents_of(bundle), readers=READERS)) == [view]


def test_ranks_meet_where_their_environment_says(fake: FakeProc) -> None:
    """One place for all that name it."""
    fake.add(10, 1, "python -m torch.distributed.run train.py", {})
    for rank in range(3):
        fake.add(20 + rank, 10, "python train.py", elastic(rank, 3, 29500))
    host = fake.host()

    places = meeting_places(host, find_job(host, 10), {})

    assert [(p.host, p.port, p.pids) for p in places] == [("127.0.0.1", 29500, (20, 21, 22))]


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ("--rdzv-endpoint=head:29444", ("head", 29444)),
        ("--rdzv-backend c10d --rdzv_endpoint head", ("head", 29400)),
        ("--rdzv-endpoint [::1]:29444", ("::1", 29444)),
        ("--master-addr head --master-port 5", ("head", 5)),
        ("--master_addr=head", ("head", 29500)),
    ],
)
def test_agents_meet_where_their_options_say(
    fake: FakeProc, options: str, place: tuple[str, int]
) -> None:
    """Nodes that wait for each other have no rank yet."""
    fake.add(10, 1, f"python -m torch.distributed.run {options} train.py", {})
    fake.add(20, 10, "python train.py", elastic(0, 1))
    host = fake.host()

    places = meeting_places(host, find_job(host, 10), {})

    assert place in [(p.host, p.port) for p in places]


def test_a_store_that_no_environment_names_is_known_by_its_thread(fake: FakeProc) -> None:
    """A program may choose its port itself; other listeners are never spoken to."""
    fake.add(20, 1, "python train.py", {"RANK": 0, "WORLD_SIZE": 2})
    host = fake.host()
    job = find_job(host, 20)

    def owner(thread: str, *sockets: str) -> dict[int, Process]:
        state = ThreadState(tid=21, name=thread, state="S")
        record = Process(
            who=Who(pid=20), source=Source(file="x"), role=Role.RANK, threads=(state,),
            descriptors=sockets,
        )  # fmt: skip
        return {20: record}

    gloo = "tcp 10.0.0.1:40001 listen"
    store = owner("pt_tcpstore_uv", gloo, "tcp [::]:29544 listen")
    assert [(p.host, p.port) for p in meeting_places(host, job, store)] == [("localhost", 29544)]
    assert not meeting_places(host, job, owner("python", gloo, "tcp [::]:29544 listen"))
    two = owner("pt_tcpstore_uv", "tcp 0.0.0.0:6006 listen", "tcp [::]:29544 listen")
    assert not meeting_places(host, job, two)


@pytest.fixture
def fake(tmp_path) -> FakeProc:
    return FakeProc(tmp_path)


def test_a_server_that_knows_no_greeting_takes_it_for_an_impossible_length() -> None:
    """Up to torch 2.0 the first byte means SET; no memory could hold the key that would follow."""
    received: list[bytes] = []
    with listening(lambda connection: received.append(connection.recv(99))) as port:
        view_of(port, limit=0.4)

    assert int.from_bytes(received[0][1:9], sys.byteorder) > 2**63
