"""Who is waited for follows from the operation and the rank that its arguments name."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

C10D = "/opt/env/lib/python3.11/site-packages/torch/distributed"
TIMED_OUT = "RuntimeError: [gloo/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv"


def stood(call: str, op: str, end: str = TIMED_OUT) -> str:
    """Make the traceback of a rank in a call, with the line of source that Python prints."""
    return (
        'Traceback (most recent call last):\n  File "/w/main.py", line 8, in <module>\n    run()\n'
        f'  File "/w/stage.py", line 30, in exchange\n    {call}\n'
        f'  File "{C10D}/c10d_logger.py", line 81, in wrapper\n    return func(*args, **kwargs)\n'
        f'  File "{C10D}/distributed_c10d.py", line 2900, in {op}\n    work.wait()\n{end}\n'
    )


def job(calls: dict[int, tuple[str, str]], end: str = TIMED_OUT) -> dict[str, str]:
    """Make the log of each rank that stood in a call."""
    return {f"rank{rank}.log": stood(*call, end) for rank, call in calls.items()}


@pytest.mark.parametrize(
    ("call", "op", "waiting", "named"),
    [
        ("dist.broadcast(flag, src=0)", "broadcast", (1, 2, 3), 0),
        ("torch.distributed.broadcast(x[0, 1], 2)", "broadcast", (0, 1, 3), 2),
        ("dist.scatter(out, parts if main else None, src=3)", "scatter", (0, 1, 2), 3),
        ("dist.gather(loss, None, dst=1, group=pg)", "gather", (0, 2), 1),
        ("dist.broadcast_object_list([cfg], src=0)", "broadcast", (1, 2), 0),
        ("dist.recv(hidden, src=1)", "recv", (0,), 1),
        ("work = dist.send(self.act[:, 0], 3)", "send", (2,), 3),
    ],
)
def test_the_rank_that_a_call_names_is_waited_for(
    call: str, op: str, waiting: tuple[int, ...], named: int
) -> None:
    """Nothing is seen of it; the calls of the others say that it is the one."""
    finding = diagnosed_files(job(dict.fromkeys(waiting, (call, op)))).findings[0]

    assert finding.category == "missing-rank-in-collective"
    assert (finding.culprit_ranks, finding.affected_ranks) == ((named,), waiting)


@pytest.mark.parametrize(
    ("ranks", "named"), [((1, 3), (0,)), ((0, 1), None), ((1, 9), (0,)), ((9, 11), None)]
)
def test_the_main_process_is_waited_for_at_the_head_of_its_block(
    ranks: tuple[int, ...], named: tuple[int, ...] | None
) -> None:
    """In ``main_process_first`` all others wait in a barrier; where it is in there, nobody is.

    Each host has a first rank of its own: ranks that are likely elsewhere do not name rank 0.
    """
    text = (
        'Traceback (most recent call last):\n  File "/w/main.py", line 8, in <module>\n    run()\n'
        '  File "/w/data.py", line 30, in prepare\n    with args.main_process_first():\n'
        '  File "/opt/env/lib/python3.11/contextlib.py", line 137, in __enter__\n'
        "    return next(self.gen)\n"
        '  File "/opt/env/lib/python3.11/site-packages/transformers/training_args.py", line 2400,'
        " in main_process_first\n    dist.barrier()\n"
        f'  File "{C10D}/distributed_c10d.py", line 3600, in barrier\n    work.wait()\n'
        f"{TIMED_OUT}\n"
    )
    finding = diagnosed_files({f"rank{rank}.log": text for rank in ranks}).findings[0]

    assert finding.culprit_ranks == named


@pytest.mark.parametrize(
    "calls",
    [
        dict.fromkeys((1, 2), ("dist.broadcast(x, src=ranks[0], group=tp)", "broadcast")),
        {0: ("dist.recv(hidden, src=prev)", "recv")},
        {0: ("self.exchange(hidden, 1)", "recv")},
        dict.fromkeys((0, 1, 2), ("dist.broadcast(x, src=0)", "broadcast")),
    ],
    ids=["by a list", "by a variable", "inside a helper", "root in it too"],
)
def test_a_call_that_does_not_tell_names_nobody(calls: dict[int, tuple[str, str]]) -> None:
    """A number that does not stand there is not guessed; a root that came is not late."""
    signatures = [f.signature for f in diagnosed_files(job(calls)).findings]

    assert "waits-for-named-rank" not in signatures


def test_a_root_among_others_that_are_not_seen_is_a_possibility() -> None:
    """One receiver of eight: any of the other six may hold the broadcast up."""
    files = job({5: ("dist.broadcast(x, src=0)", "broadcast")})
    files["rank5.log"] = "[rank5]: world size 8\n" + files["rank5.log"]
    files["rank7.log"] = "loading\n"

    named = [f for f in diagnosed_files(files).findings if f.culprit_ranks == (0,)]

    assert all(finding.confidence < 0.5 for finding in named)


def test_sends_and_receives_in_logs_are_paired() -> None:
    """Rank 0 receives from rank 2, which sends to rank 1."""
    calls = {
        0: ("dist.recv(buf, src=2)", "recv"),
        1: ("dist.barrier()", "barrier"),
        2: ("dist.send(buf, dst=1)", "send"),
    }
    finding = diagnosed_files(job(calls, "KeyboardInterrupt")).findings[0]

    assert finding.category == "p2p-mismatch"
    assert "rank 0 is in recv from rank 2" in finding.title


@pytest.mark.parametrize(
    ("third", "culprits"),
    [(("dist.send(buf, dst=0)", "send"), (1,)), (("dist.recv(buf, src=0)", "recv"), None)],
)
def test_who_is_in_a_collective_while_all_others_send_on_to_it_does_not_receive(
    third: tuple[str, str], culprits: tuple[int, ...] | None
) -> None:
    """Rank 2 sends to rank 0, and rank 0 to rank 1, which is in a barrier."""
    calls = {0: ("dist.send(buf, dst=1)", "send"), 1: ("dist.barrier()", "barrier"), 2: third}
    finding = diagnosed_files(job(calls, "KeyboardInterrupt")).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("p2p-mismatch", culprits)
    assert ("; rank 1 is in barrier" in finding.title) is (culprits is not None)
