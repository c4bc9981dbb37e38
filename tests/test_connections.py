"""Connections between hosts that get no answer: of two, of one, of none, and what is none.

A job of one rank a host: rank 0 on n0 (10.9.0.1), rank 1 on n1 (10.9.0.2) and so on; all with the
same pid, as processes of containers have.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping, Sequence

import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, INIT, dump, process, report_of

from whyhang.analyzer.facts import (
    Fact,
    Gap,
    HostAddress,
    HostSilence,
    InitArguments,
    NetworkPort,
    Source,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.report import Report
from whyhang.collectors.files import claims
from whyhang.collectors.hosts import remote_host
from whyhang.collectors.live.probes.interfaces import interfaces

PID = 17
LISTEN = "tcp 10.9.0.2:4000 listen"


def job(
    sockets: Mapping[int, Sequence[str]],
    *extra: Fact,
    stacks: Sequence[str] = (ALL_REDUCE, ALL_REDUCE, ALL_REDUCE),
    seen: int = 3,
    woke: int = 0,
) -> Report:
    facts: list[Fact] = list(extra)
    for rank, text in enumerate(stacks[:seen]):
        who = Who(rank=rank, pid=PID, trust=Trust.ENVIRONMENT, host=f"n{rank}")
        environ = {"WORLD_SIZE": str(len(stacks)), "RANK": str(rank), "MASTER_ADDR": "n0"}
        own = (f"tcp 10.9.0.{rank + 1}:5{rank} -> 10.9.0.1:29500 established",)
        for look in (0, 1):
            known = process(rank, look=look, environ=environ, woke=woke * look)
            facts.append(replace(known, who=who, descriptors=(*own, *sockets.get(rank, ()))))
            facts.append(replace(dump(rank, text, look=look, pid=PID), who=who))
    return report_of(facts)


def first(report: Report) -> tuple[str, str, tuple[int, ...] | None]:
    found = report.findings[0]
    return found.signature, found.category, found.culprit_ranks


def test_a_connection_that_cannot_be_made_is_named_with_both_ends() -> None:
    """A rank in its start knocks at a port of another one, which listens: nobody is to blame."""
    knocks = "tcp 10.9.0.3:5100 -> 10.9.0.2:4000 syn-sent, sent again 5 times"
    report = job({1: [LISTEN], 2: [knocks]}, stacks=(ALL_REDUCE, INIT, INIT))
    assert first(report) == ("connection-gets-no-answer", "nccl-network-interface", None)
    assert report.headline == (
        "The connection from rank 2 on n2 to n1 port 4000 (rank 1 listens there) gets no answer: "
        "blocked between n1 and n2."
    )
    assert [piece.quote for piece in report.findings[0].evidence][:2] == [
        f"pid 17: {knocks}",
        f"pid 17: {LISTEN}",
    ]
    assert report.verdict == "hung"
    assert not any(node.role == "cycle" for node in report.waits.nodes)


def test_what_is_not_acknowledged_any_more_is_a_path_that_was_cut() -> None:
    """Both ends of one connection send in vain; the other connections of the two hosts rest."""
    report = job(
        {
            1: ["tcp 10.9.0.2:4000 -> 10.9.0.3:5100 established, 96 bytes sent again 6 times"],
            2: ["tcp 10.9.0.3:5100 -> 10.9.0.2:4000 established, 812 bytes sent again 5 times"],
        }
    )
    assert first(report) == ("connection-gets-no-answer", "nccl-network-interface", None)
    assert (
        "from rank 1 on n1 to rank 2 on n2 gets no answer (and 1 more like it)" in report.headline
    )
    assert report.findings[0].confidence >= 0.9


CUT_FROM_BOTH = {
    0: ["tcp 10.9.0.1:4000 -> 10.9.0.3:5100 established, 96 bytes sent again 6 times"],
    1: ["tcp 10.9.0.2:4000 -> 10.9.0.3:5101 established, 96 bytes sent again 6 times"],
}


def test_a_host_that_two_others_get_no_answer_from_is_cut_off() -> None:
    """All connections that get no answer lead to one host: its rank is named."""
    report = job(CUT_FROM_BOTH)
    assert first(report) == ("host-is-cut-off", "nccl-network-interface", (2,))
    assert report.headline.startswith("Host n2 is cut off")
    assert report.findings[0].affected_ranks == (0, 1)


def test_an_interface_that_is_down_is_why_a_host_is_cut_off() -> None:
    """The interface that has the job's address there is down, and up elsewhere."""
    ports = [
        NetworkPort(
            name="eth1", quote=f"eth1: {state}, 10.9.0.{n + 1}", up=state == "up", state=state,
            addresses=(f"10.9.0.{n + 1}",), who=Who(host=f"n{n}"),
            source=Source(file=f"n{n}/claims.json"),
        )
        for n, state in enumerate(("up", "up", "down"))
    ]  # fmt: skip
    report = job(CUT_FROM_BOTH, *ports)
    assert first(report) == ("network-interface-down", "nccl-network-interface", (2,))
    assert report.findings[1].signature == "host-is-cut-off"
    assert report.findings[1].caused_by == 0


def silent(name: str, address: str = "") -> list[Fact]:
    who, source = Who(host=name), Source(file="hosts.claims.json")
    facts: list[Fact] = [
        HostSilence(why="it cannot be reached over the network", who=who, source=source),
        Gap(what=f"looking at host {name}", why="it cannot be reached over the network", who=who),
    ]
    return [*facts, HostAddress(address=address, who=who, source=source)] if address else facts


def test_a_host_that_nobody_reaches_is_the_finding() -> None:
    """Neither whyhang nor the other ranks get an answer from it: its rank is named."""
    report = job(CUT_FROM_BOTH, *silent("n2", "10.9.0.3"), seen=2)
    assert first(report) == ("host-does-not-answer", "rank-died", (2,))
    assert report.verdict == "hung"
    assert [finding.signature for finding in report.findings] == ["host-does-not-answer"]


def test_a_host_that_only_whyhang_does_not_reach_is_a_possibility() -> None:
    """There may be a firewall between ssh and the host; the waits lead there all the same."""
    report = job({}, *silent("n2"), seen=2)
    assert report.findings[0].signature == "host-does-not-answer"
    assert report.findings[0].confidence < 0.6


def test_nobody_is_named_where_a_further_host_was_not_looked_at() -> None:
    """Which of the ranks that were not seen are on the silent host is not known then."""
    other = Gap(what="looking at host n3", why="ssh was refused", who=Who(host="n3"))
    report = job({}, *silent("n2"), other, seen=2)
    assert "host-does-not-answer" not in {finding.signature for finding in report.findings}


def test_who_holds_the_others_up_is_no_matter_of_a_silent_host() -> None:
    """A rank that was seen elsewhere is the cause, whatever else could not be reached."""
    report = job({}, *silent("n2"), stacks=(ELSEWHERE, ALL_REDUCE, ALL_REDUCE), seen=2)
    assert report.findings[0].culprit_ranks == (0,)
    assert report.findings[0].signature != "host-does-not-answer"


@pytest.mark.parametrize(
    "sockets",
    [
        # one packet sent twice: any network loses one
        {1: ["tcp 10.9.0.2:4000 -> 10.9.0.3:5100 established, 96 bytes sent again 2 times"]},
        # nobody accepts there: who listens is the one to look at
        {
            1: ["tcp 10.9.0.2:4000 listen, 3 not accepted"],
            2: ["tcp 10.9.0.3:5100 -> 10.9.0.2:4000 syn-sent, sent again 5 times"],
        },
        # somebody outside the job
        {1: ["tcp 10.9.0.2:5100 -> 192.0.2.7:443 syn-sent, sent again 5 times"]},
        # an address that both hosts have
        {
            0: ["tcp 172.17.0.1:4000 listen"],
            1: ["tcp 172.17.0.1:4000 listen"],
            2: ["tcp 10.9.0.3:5100 -> 172.17.0.1:4000 syn-sent, sent again 5 times"],
        },
        # within one host there is no path
        {1: [LISTEN, "tcp 10.9.0.2:5100 -> 10.9.0.2:4000 syn-sent, sent again 5 times"]},
    ],
)  # fmt: skip
def test_what_is_no_path_that_was_cut(sockets: Mapping[int, Sequence[str]]) -> None:
    """Each looks like it and is not."""
    found = {finding.signature for finding in job(sockets).findings}
    assert not found & {"connection-gets-no-answer", "host-is-cut-off"}


def test_a_job_that_moves_has_no_path_that_was_cut() -> None:
    """Ranks that go on have lost a packet, not a network."""
    found = {finding.signature for finding in job(CUT_FROM_BOTH, woke=500).findings}
    assert not found & {"connection-gets-no-answer", "host-is-cut-off"}


def test_processes_of_one_number_on_two_hosts_are_two() -> None:
    """What one gave to init_process_group accuses no process of the same pid elsewhere."""
    given = [
        InitArguments(
            rank=rank, source=Source(file=f"n{rank}/claims.json"),
            who=Who(rank=rank, pid=PID, trust=Trust.ENVIRONMENT, host=f"n{rank}"),
        )
        for rank in (1, 2)
    ]  # fmt: skip
    report = job({}, *given, stacks=(ALL_REDUCE, INIT, INIT))
    assert "init-duplicate-rank" not in {finding.signature for finding in report.findings}


def test_interfaces_come_back_from_a_bundle_as_they_were() -> None:
    """Whatever interfaces this machine has: their rows are read as they were written."""
    for fact in interfaces("n0"):
        (row,) = claims.rows(fact)
        assert claims.statement(row) == fact
    names = {name for _, name in socket.if_nameindex()}
    assert {fact.name for fact in interfaces("n0")} <= names - {"lo"}
    assert os.sep not in "".join(fact.name for fact in interfaces("n0"))


@pytest.mark.parametrize(
    ("printed", "is_silent"),
    [
        ("ssh: connect to host n2 port 22: No route to host", True),
        ("ssh: connect to host n2 port 22: Connection timed out", True),
        ("ssh: connect to host n2 port 22: Connection refused", False),
        ("Connection timed out during banner exchange", False),
        ("n2: Permission denied (publickey).", False),
    ],
)
def test_a_host_that_answers_and_lets_nobody_in_is_not_silent(
    printed: str, is_silent: bool
) -> None:
    """What refuses is there."""
    assert remote_host.is_silent("ssh", printed) is is_silent


RECEIVES = """
recv_into (socket.py:718)
readinto (socket.py:706)
ask (features.py:12)
train (train.py:38)
<module> (train.py:60)
"""


def waits_at(connection: str, *, listening: Sequence[str] = (), seen: int = 3) -> Report:
    """Let rank 1 wait at a connection in its own code, and the others for rank 1."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, RECEIVES, ALL_REDUCE)[:seen]):
        who = Who(rank=rank, pid=PID, trust=Trust.ENVIRONMENT, host=f"n{rank}")
        own = (f"tcp 10.9.0.{rank + 1}:5{rank} -> 10.9.0.1:29500 established",)
        for look in (0, 1):
            known = process(rank, look=look, environ={"WORLD_SIZE": "3", "RANK": str(rank)})
            known = replace(known, who=who, descriptors=(*own, *(listening if rank == 2 else ())))
            facts.append(replace(known, awaits=connection if rank == 1 else None))
            facts.append(replace(dump(rank, text, look=look, pid=PID), who=who))
    return report_of(facts)


@pytest.mark.parametrize(
    ("peer", "seen", "named"),
    [
        ("10.9.0.3:9000", 3, "(10.9.0.3:9000, rank 2 on n2)"),
        ("10.9.0.3:9001", 3, "(10.9.0.3:9001, no rank, on n2)"),
        ("192.0.2.7:443", 3, "(192.0.2.7:443, outside the job)"),
        ("192.0.2.7:443", 2, "(192.0.2.7:443, on no host that was looked at)"),
    ],
)
def test_who_has_the_other_end_of_what_a_rank_waits_at(peer: str, seen: int, named: str) -> None:
    """Another rank, another program of a host of the job, or nobody of the job."""
    listening = ["tcp 0.0.0.0:9000 listen"]
    connection = f"tcp 10.9.0.2:5100 -> {peer} established"
    report = waits_at(connection, listening=listening, seen=seen)
    assert named in report.headline
    assert f"pid 17 waits at {connection}" in [p.quote for p in report.findings[0].evidence]
    is_rank = "rank 2" in named
    assert report.findings[0].culprit_ranks == (None if is_rank else (1,))


def test_a_server_in_a_thread_of_the_rank_is_no_other_rank() -> None:
    """Who waits at a connection to its own process holds the others up itself."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, RECEIVES, ALL_REDUCE)):
        own = ("tcp 127.0.0.1:9000 listen",) if rank == 1 else ()
        awaits = "tcp 127.0.0.1:5100 -> 127.0.0.1:9000 established" if rank == 1 else None
        who = Who(rank=rank, pid=PID + rank, trust=Trust.ENVIRONMENT, host="vm")
        for look in (0, 1):
            known = process(rank, look=look, environ={"WORLD_SIZE": "3", "RANK": str(rank)})
            facts.append(replace(known, who=who, descriptors=own, awaits=awaits))
            facts.append(replace(dump(rank, text, look=look, pid=PID + rank), who=who))
    report = report_of(facts)

    assert "(127.0.0.1:9000, its own process)" in report.headline
    assert report.findings[0].culprit_ranks == (1,)


def test_a_step_with_a_pid_says_on_which_host_that_is() -> None:
    """Ranks of three hosts have one pid; of two that are to blame, both are named."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, ELSEWHERE, ELSEWHERE, ALL_REDUCE, ALL_REDUCE)):
        who = Who(rank=rank, pid=PID, trust=Trust.ENVIRONMENT, host=f"n{rank}")
        for look in (0, 1):
            environ = {"WORLD_SIZE": "5", "RANK": str(rank)}
            facts.append(replace(process(rank, look=look, environ=environ), who=who))
            facts.append(replace(dump(rank, text, look=look, pid=PID), who=who))
    steps = report_of(facts).findings[0].next_steps
    assert any("--pid 17  # on n1 (rank 2: 17 on n2)" in step for step in steps)


def test_containers_of_one_host_are_told_apart_by_their_addresses() -> None:
    """Their networks may be cut as those of hosts are; the host's name says nothing then."""
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, INIT, INIT)):
        who = Who(rank=rank, pid=PID + rank, trust=Trust.ENVIRONMENT, host="vm")
        own = [f"tcp 10.9.0.{rank + 1}:5{rank} -> 10.9.0.1:29500 established"]
        own += [LISTEN] if rank == 1 else []
        own += ["tcp 10.9.0.3:5100 -> 10.9.0.2:4000 syn-sent, sent again 5 times"] * (rank == 2)
        for look in (0, 1):
            known = process(rank, look=look, environ={"WORLD_SIZE": "3", "RANK": str(rank)})
            facts.append(replace(known, who=who, descriptors=tuple(own)))
            facts.append(replace(dump(rank, text, look=look, pid=PID + rank), who=who))
    report = report_of(facts)
    assert report.headline == (
        "The connection from rank 2 on 10.9.0.3 to 10.9.0.2 port 4000 (rank 1 listens there) gets "
        "no answer: blocked between 10.9.0.2 and 10.9.0.3."
    )
