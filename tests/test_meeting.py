"""Where ranks meet at start-up: who cannot come there, and when nobody may be blamed for it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from fake_proc import FakeProc, elastic
from small_jobs import ELSEWHERE, INIT, dump, process, report_of

from whyhang.analyzer.facts import (
    Address,
    Fact,
    InitArguments,
    Listener,
    Source,
    StoreView,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.report import Report
from whyhang.collectors.live.frame_variables import read_spot
from whyhang.collectors.live.job.find import find_job
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.sockets import Sockets, is_own, listeners, own_addresses
from whyhang.samples.harness import scenario

PORT = 29500


def view(*ranks: int, outcome: str = "answered", host: str = "head", **more: object) -> StoreView:
    fact = StoreView(
        who=Who(host="n"), source=Source(file="n/stores.json"), host=host, port=PORT,
        outcome=outcome, resolved=("10.0.0.1",), asked_by=tuple(1000 + rank for rank in ranks),
    )  # fmt: skip
    return replace(fact, **more)


def meets(rank: int, host: str, port: int = PORT) -> InitArguments:
    who = Who(rank=rank, trust=Trust.ENVIRONMENT, pid=1000 + rank)
    address = Address(host=host, port=port)
    return InitArguments(address=address, who=who, source=Source(file="n/claims.json"))


def starting(
    *extra: Fact,
    late: Iterable[int] = (),
    ranks: int = 3,
    started: Mapping[int, float] | None = None,
) -> Report:
    environ = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "head", "MASTER_PORT": str(PORT)}
    facts: list[Fact] = list(extra)
    for rank in range(ranks):
        for look in (0, 1):
            known = process(rank, look=look, environ={**environ, "RANK": str(rank)})
            facts.append(replace(known, started_at=(started or {}).get(rank, 500.0)))
            facts.append(dump(rank, ELSEWHERE if rank in late else INIT, look=look))
    return report_of(facts)


def first(report: Report) -> tuple[str, tuple[int, ...] | None]:
    return report.findings[0].signature, report.findings[0].culprit_ranks


@pytest.mark.parametrize(
    ("outcome", "signature"),
    [
        ("refused", "init-master-refuses"),
        ("unreachable", "init-master-no-answer"),
        ("unresolved", "init-master-name-unknown"),
    ],
)
def test_the_rank_that_alone_does_not_reach_the_store_is_named(
    outcome: str, signature: str
) -> None:
    """Its own network was asked, and the others get through."""
    resolved = () if outcome == "unresolved" else ("10.0.0.1",)
    report = starting(view(0, 1), view(2, outcome=outcome, resolved=resolved))

    assert first(report) == (signature, (2,))


@pytest.mark.parametrize("outcome", ["refused", "unreachable", "unresolved"])
def test_nobody_is_named_where_no_rank_reaches_the_store(outcome: str) -> None:
    """The address is to blame, not a rank."""
    report = starting(view(0, 1, 2, outcome=outcome))

    assert report.findings[0].category in {"init-master-unreachable", "init-hostname-resolution"}
    assert report.findings[0].culprit_ranks is None


def test_a_master_that_is_late_is_not_unreachable() -> None:
    """Nothing can listen before rank 0 has come to its own start-up."""
    report = starting(view(0, 1, 2, outcome="refused"), late=[0])

    assert report.findings[0].category == "init-missing-rank"
    assert report.findings[0].culprit_ranks == (0,)
    assert not [f for f in report.findings if f.signature == "init-master-refuses"]


def test_a_store_that_answers_blames_no_address() -> None:
    """A rank that is late in another line is what the others wait for."""
    report = starting(view(0, 1, 2), late=[2])

    assert (report.findings[0].category, report.findings[0].culprit_ranks) == (
        "init-missing-rank",
        (2,),
    )


def test_another_address_in_the_program_counts_more_than_the_environment() -> None:
    """The arguments of the call are what the rank goes by."""
    report = starting(view(0, 1), view(2, outcome="refused", port=9), meets(2, "head", 9))

    assert first(report) == ("init-master-differs", (2,))
    assert "head:9" in report.headline


def test_another_name_of_the_same_store_is_no_difference() -> None:
    """Rank 0 may say localhost where the others say the name of its host."""
    report = starting(view(0, host="localhost"), view(1, 2), meets(0, "localhost"), late=[1])

    assert report.findings[0].category == "init-missing-rank"


def test_an_old_line_for_the_name_is_distinguished_from_a_closed_port() -> None:
    """Two hosts find different addresses under one name."""
    report = starting(view(0, 1), view(2, outcome="refused", resolved=("10.0.0.9",)))

    assert first(report) == ("init-master-name-differs", (2,))
    assert "10.0.0.9" in report.headline
    assert "10.0.0.1" in report.headline


def test_loopback_is_wrong_only_between_networks() -> None:
    """On one host every rank may meet at 127.0.0.1."""
    inward = {"host": "localhost", "resolved": ("127.0.0.1",)}
    near = view(0, network="net:[1]", **inward)
    far = view(1, 2, outcome="refused", **inward)

    elsewhere = starting(near, replace(far, network="net:[2]"))
    together = starting(near, replace(far, network="net:[1]"))

    assert elsewhere.findings[0].signature == "init-master-is-loopback"
    assert "init-master-is-loopback" not in {f.signature for f in together.findings}


def test_a_stranger_on_the_port_is_named_with_its_command() -> None:
    """The other ranks wait for an answer that it never gives."""
    held = Listener(address="0.0.0.0:29500", pid=77, command="nginx: master", started_at=1.0)
    report = starting(view(1, 2, outcome="silent", listeners=(held,), own_address=True))

    assert first(report) == ("init-port-held", None)
    assert "process 77 (nginx)" in report.headline


def test_a_listener_elsewhere_with_the_same_number_is_no_stranger() -> None:
    """The address must be this host's own: many hosts listen on that port."""
    held = Listener(address="0.0.0.0:29500", pid=77, command="nginx: master", started_at=1.0)
    report = starting(view(1, 2, outcome="unreachable", listeners=(held,), own_address=False))

    assert "init-port-held" not in {f.signature for f in report.findings}


def test_the_job_s_own_store_is_held_by_nobody() -> None:
    """Its rank 0 listens there, past its start-up or inside it."""
    own = Listener(
        address="[::]:29500", pid=1000, started_at=500.0, rank=0, ours=True, same_script=True
    )
    report = starting(view(0, 1, 2, listeners=(own,), own_address=True), late=[0])

    assert not [f for f in report.findings if f.category == "init-port-in-use"]


def test_a_leftover_of_the_last_run_is_recognized_by_its_age_and_script() -> None:
    """It runs the same script, is no rank that starts, and began long before."""
    old = Listener(
        address="[::]:29500", pid=77, command="python train.py", started_at=100.0, rank=0,
        same_script=True,
    )  # fmt: skip
    report = starting(view(1, 2, listeners=(old,), own_address=True))

    assert first(report) == ("init-port-held-by-leftover", None)
    assert "process 77" in report.headline
    assert "7 minutes before" in report.findings[0].explanation


def test_the_count_of_clients_shows_an_old_rank_zero_that_new_ranks_have_joined() -> None:
    """Gloo lets a new rank in where an old one was; the store then has counted one too many."""
    old = Listener(
        address="[::]:29500", pid=1000, started_at=100.0, rank=0, ours=True, same_script=True
    )
    joined = view(0, 1, 2, listeners=(old,), own_address=True, values={"init/": "4"})
    usual = replace(joined, values={"init/": "3"})

    report = starting(joined, late=[0, 1, 2], started={0: 100.0})
    late = starting(usual, late=[0, 1, 2], started={0: 100.0})

    assert first(report) == ("init-port-held-by-leftover", (0,))
    assert not [f for f in late.findings if f.category == "init-port-in-use"]


def test_a_rank_given_twice_in_the_call_is_seen_though_the_environment_is_right() -> None:
    """rank=local_rank on two hosts is the usual mistake."""
    report = starting(view(0, 1, 2), replace(meets(2, "head"), address=None, rank=1))

    assert report.findings[0].category == "init-duplicate-rank"
    assert "1001 and 1002" in report.headline
    assert "nobody is rank 2" in report.headline


def locals_of(frames: Iterable[tuple[str, str, Mapping[str, str]]]) -> bytes:
    rows = [
        {
            "name": name,
            "filename": f"/x/torch/distributed/{file}",
            "locals": [{"name": key, "repr": value} for key, value in message.items()],
        }
        for name, file, message in frames
    ]
    return json.dumps([{"pid": 7, "frames": rows}]).encode()


def test_the_place_is_read_from_the_innermost_call_that_says_it() -> None:
    """The environment's handler has turned it into host and port; nothing else is kept."""
    data = locals_of(
        [
            (
                "_create_c10d_store",
                "rendezvous.py",
                {"hostname": '"head"', "port": "29501", "rank": "2", "world_size": "4", "s": "x"},
            ),
            ("init_process_group", "distributed_c10d.py", {"init_method": "None", "rank": "-1"}),
        ]
    )

    spot = read_spot(Who(pid=7), data)

    assert spot is not None
    assert (spot.who.pid, spot.rank, spot.world_size) == (7, 2, 4)
    assert spot.address == Address(host="head", port=29501)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("tcp://10.0.0.1:5", "10.0.0.1:5"),
        ("tcp://[::1]:5?rank=1", "[::1]:5"),
        ("file:///shared/init?x=1", "file:///shared/init"),
        ("env://", None),
        ("s3://token@x", None),
    ],
)
def test_urls_of_the_place_are_understood(url: str, address: str | None) -> None:
    """Every form that torch knows, and nothing of others."""
    data = locals_of([("init_process_group", "distributed_c10d.py", {"init_method": f'"{url}"'})])

    spot = read_spot(Who(pid=7), data)

    assert spot is not None
    assert (str(spot.address) if spot.address is not None else None) == address


def test_a_process_outside_its_start_up_tells_no_place() -> None:
    """Variables of other functions are not looked at; damaged output is nothing."""
    assert (
        read_spot(Who(pid=7), locals_of([("main", "x.py", {"hostname": '"a"', "port": "1"})]))
        is None
    )
    assert read_spot(Who(pid=7), b"{") is None


def test_listeners_are_named_by_pid_and_command() -> None:
    """The kernel's table gives the socket, the open files its owner."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        host = Host(Proc())
        (listener,) = listeners(host, Sockets(host.proc), os.getpid(), port, [os.getpid()])
    assert (listener.pid, listener.address, listener.ours) == (
        os.getpid(),
        f"127.0.0.1:{port}",
        True,
    )
    assert not listeners(host, Sockets(host.proc), os.getpid(), port, [])


def test_own_addresses_are_those_of_the_network() -> None:
    """Loopback is everybody's own; a documentation address is nobody's."""
    own = own_addresses(Proc(), os.getpid())

    assert "127.0.0.1" in own
    assert is_own(own, "127.0.1.1") is True
    assert is_own(own, "192.0.2.1") is False
    assert is_own(frozenset(), "192.0.2.1") is None


def test_a_rank_with_another_port_is_still_of_the_job(tmp_path: Path) -> None:
    """Same launcher, same script, and a rank that nobody else is."""
    fake = FakeProc(tmp_path)
    fake.add(10, 1, "sh start.sh", {})
    for rank in range(3):
        port = 29500 if rank < 2 else 9
        fake.add(
            20 + rank, 10, "python train.py", {**elastic(rank, 3, port), "TORCHELASTIC_RUN_ID": ""}
        )
    host = fake.host()

    for pid in (10, 20, 22):
        assert {member.rank for member in find_job(host, pid).members} == {0, 1, 2}


def test_two_jobs_side_by_side_stay_two(tmp_path: Path) -> None:
    """Both have a rank 0, so the other port is no mistake."""
    fake = FakeProc(tmp_path)
    for job in range(2):
        for rank in range(2):
            environ = elastic(rank, 2, 29500 + job)
            fake.add(20 + 10 * job + rank, 1, "python train.py", environ)

    members = find_job(fake.host(), 20).members

    assert {member.pid for member in members} == {20, 21}


def test_several_hosts_need_root_and_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sample that makes hosts is refused with the reason, before anything starts."""
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    lack = scenario.missing(scenario.samples()["init-firewall-drops"])

    assert lack is not None
    assert "root" in str(lack)


def test_a_setting_of_torch_on_one_rank_is_named_and_others_are_a_note() -> None:
    """DETAIL builds a second group; another interface may be right on another host."""
    facts: list[Fact] = []
    for rank in range(3):
        environ = {"WORLD_SIZE": "3", "GLOO_SOCKET_IFNAME": "eth1" if rank == 1 else "eth0"}
        if rank == 2:
            environ["TORCH_DISTRIBUTED_DEBUG"] = "DETAIL"
        for look in (0, 1):
            facts += [process(rank, look=look, environ=environ), dump(rank, INIT, look=look)]

    report = report_of(facts)

    assert first(report) == ("torch-settings-differ", (2,))
    assert "GLOO_SOCKET_IFNAME (eth1 on rank 1, eth0 on ranks 0,2)" in " ".join(report.notes)


def test_large_packets_that_vanish_are_the_way_s_fault() -> None:
    """Only a probe sees it; where small ones vanish too, it says nothing of sizes."""
    hole = view(0, 1, 2, mtu=9000, echo_small=True, echo_large=False)

    report = starting(hole)

    assert first(report) == ("init-mtu", None)
    assert "9000 bytes" in report.headline
    silent = starting(replace(hole, echo_small=False))
    assert "init-mtu" not in {f.signature for f in silent.findings}


def test_a_port_that_was_only_connected_to_is_no_place_of_trouble() -> None:
    """With --probe --no-store nothing is asked, and reaching the port is enough."""
    report = starting(view(0, 1, outcome="not asked"), view(2, outcome="refused"))

    assert first(report) == ("init-master-refuses", (2,))
