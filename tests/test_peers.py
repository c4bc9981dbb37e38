"""The ranks at the other end of sends and receives, out of stacks with local variables."""

from __future__ import annotations

import json

import pytest
from small_jobs import report_of, still
from stack_docs import facts

from whyhang.analyzer.collectives import Verdict, recorded_calls
from whyhang.analyzer.facts import Call, CallState, Excerpt, Group, Source, Track, Trust, Who
from whyhang.collectors.stacks import pyspy_text
from whyhang.collectors.stacks.pyspy_json import peers_only

C10D = "/opt/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
STACK = [
    {
        "pid": 7,
        "thread_id": 1,
        "os_thread_id": 7,
        "frames": [
            {
                "name": "recv",
                "filename": C10D,
                "line": 2799,
                "locals": [
                    {"name": "tensor", "repr": "<Tensor at 0x7f>"},
                    {"name": "src", "repr": "3"},
                ],
            },
            {
                "name": "train",
                "filename": "/job/train.py",
                "line": 23,
                "locals": [{"name": "api_key", "repr": '"s3cret"'}],
            },
        ],
    },
    {"pid": 7, "frames": [{"name": "run", "filename": "threading.py", "line": 1, "locals": None}]},
]


def test_of_all_variables_only_the_peer_is_kept() -> None:
    """What else stood in the frames does not reach the bundle."""
    kept = peers_only(json.dumps(STACK).encode())

    assert b"s3cret" not in kept
    assert b"Tensor" not in kept
    (trace,) = json.loads(kept)
    assert trace["frames"][0]["locals"] == [{"name": "src", "repr": "3"}]
    assert [frame["name"] for frame in trace["frames"]] == ["recv", "train"]


@pytest.mark.parametrize("data", [b"", b"{}", b"[1]", b'[{"frames": 3}]', b"\xff\xfe"])
def test_a_dump_that_cannot_be_read_keeps_nothing(data: bytes) -> None:
    """A broken dump is an empty list of peers, not an error."""
    assert peers_only(data) == b"[]"


TEXT = """\
Process {pid}: python train.py
Python v3.11.7 (/opt/python3.11)

Thread {pid} (idle): "MainThread"
    {op} (torch/distributed/distributed_c10d.py:2799)
        Arguments:
            tensor: <Tensor at 0x7f>
            {side}: 3
            tag: 5
    train (train.py:23)
        Arguments:
            rank: {rank}
    <module> (train.py:29)
"""


def test_peers_are_read_from_text_of_several_processes() -> None:
    """Each send or receive is that of the process on whose stack it stands."""
    content = TEXT.format(pid=7, op="isend", side="dst", rank=1)
    content += TEXT.format(pid=8, op="recv", side="src", rank=2)

    tracks = [fact for fact in facts(pyspy_text.READER, content) if isinstance(fact, Track)]

    calls = [(track.who.rank, call) for track in tracks for call in track.calls]
    assert [(rank, call.op, call.peer, call.tag) for rank, call in calls] == [
        (1, "send", 3, 5),
        (2, "recv", 3, 5),
    ]
    assert [frame.function for frame in calls[0][1].frames] == ["isend", "train", "<module>"]


def stands(rank: int, op: str, peer: int) -> Track:
    """Say that a stack shows a rank within a send or receive."""
    call = Call(op=op, state=CallState.INSIDE, p2p=True, peer=peer)
    who = Who(rank=rank, trust=Trust.ENVIRONMENT)
    source = Source(file=f"{rank}.json")
    return Track(who=who, group=Group(name=""), kind="stack", source=source, calls=(call,))


def in_barrier(rank: int) -> Track:
    """Say that a stack shows a rank in a barrier, which may be one of ranks 0 to 3."""
    world = Group(name="", ranks=(0, 1, 2, 3))
    calls = (Call(op="barrier", state=CallState.INSIDE),)
    source = Source(file=f"{rank}.json")
    return Track(who=Who(rank=rank), group=world, kind="stack", source=source, calls=calls)


def test_who_listens_to_a_rank_that_has_gone_on_while_another_sends_is_wrong() -> None:
    """Rank 1 listens to 2, which is in the barrier; 0 sends to 1 in vain: 1 has the wrong peer."""
    tracks = [stands(0, "send", 1), stands(1, "recv", 2)]
    waits = [in_barrier(2), in_barrier(3)]

    (finding,) = recorded_calls([*tracks, *waits]).findings

    assert (finding.verdict, finding.culprits) == (Verdict.P2P_UNPAIRED, (1,))


def test_who_listens_to_a_late_rank_is_not_wrong() -> None:
    """Rank 2 has not come to its send yet: that rank 0 also has something for 1 proves nothing."""
    tracks = [stands(0, "send", 1), stands(1, "recv", 2)]

    report = recorded_calls([*tracks, in_barrier(3)])

    assert all(1 not in finding.culprits for finding in report.findings)


def test_receives_and_collectives_that_wait_for_each_other_blame_nobody() -> None:
    """Two receive from ranks that stand in a collective: which link is wrong stays open."""
    tracks = [stands(0, "recv", 3), stands(2, "recv", 1)]
    waits = [in_barrier(1), in_barrier(3)]

    (finding,) = recorded_calls([*tracks, *waits]).findings

    assert (finding.verdict, finding.culprits) == (Verdict.P2P_UNPAIRED, ())
    assert finding.says.startswith("Ranks wait for each other, in messages and collectives")
    assert "recv from rank 3 (itself in barrier" in finding.says


PIPELINE = Excerpt(
    file="train.py",
    first_line=20,
    lines=(
        "def step(pipe, parts):",
        "    for part in parts:",
        "        pipe.forward(part)",
        "    for part in parts:",
        "        pipe.backward(part)",
    ),
)


def stage(op: str, line: int) -> str:
    """Make the stack of a stage that sends or receives in this line of its step."""
    c10d = "torch/distributed/distributed_c10d.py"
    return (
        f"{op} ({c10d}:2800)\npass_on (stages.py:7)\nstep (train.py:{line})\n<module> (train.py:60)"
    )


@pytest.mark.parametrize(
    ("lines", "peers", "culprits"),
    [
        ((24, 22, 24, 22), (1, 2, 3, 2), (2,)),  # 1 has one more for 2, and 3 waits for one more
        ((24, 24, 24, 22), (1, 2, 3, 2), None),  # 3 alone waits for more than it was given
        ((24, 22, 22, 22), (1, 2, 3, 2), None),  # all are in one loop
    ],
)
def test_who_has_left_the_loop_that_all_partners_are_in_made_too_few_calls(
    lines: tuple[int, ...], peers: tuple[int, ...], culprits: tuple[int, ...] | None
) -> None:
    """Two partners against one; of a pair neither is known to be wrong."""
    ops = ["send" if rank == 1 and line == 22 else "recv" for rank, line in enumerate(lines)]
    stacks = {rank: stage(ops[rank], line) for rank, line in enumerate(lines)}
    tracks = [stands(rank, ops[rank], peer) for rank, peer in enumerate(peers)]

    finding = report_of([*still(stacks), *tracks, PIPELINE]).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", culprits)
