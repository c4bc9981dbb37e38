"""Jobs that never come together: who is missing, late, from another start, or beyond."""

from __future__ import annotations

from log_docs import read_log
from small_jobs import BARRIER, ELSEWHERE, INIT, dump, process, report_of

from whyhang.analyzer.facts import (
    Address,
    Fact,
    FileView,
    InitArguments,
    Process,
    Source,
    ThreadState,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.report import Report
from whyhang.analyzer.wording.describe import duration


def looks(
    rank: int, stack: str, later: str | None = None, *, environ: dict[str, str], woke: int = 0
) -> list[Fact]:
    """Make two looks at one rank."""
    return [
        process(rank, environ=environ),
        dump(rank, stack),
        process(rank, look=1, environ=environ, woke=woke, ticks=0),
        dump(rank, later or stack, look=1),
    ]


def test_a_rank_beyond_what_slurm_started_is_missing() -> None:
    """WORLD_SIZE counts four, the step has three tasks: rank 3 was started by nobody."""
    facts = []
    for rank in range(3):
        environ = {"WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": str(rank)}
        facts += looks(rank, INIT, environ=environ)
    finding = report_of(facts).findings[0]
    assert finding.category == "init-missing-rank"
    assert finding.culprit_ranks == (3,)
    assert "srun started 3 tasks" in finding.title


def test_a_world_size_too_large_says_nothing_of_ranks_that_have_met() -> None:
    """A program may ignore WORLD_SIZE; once its ranks train, no rank is missing for it."""
    train = "all_reduce (torch/distributed/distributed_c10d.py:3100)\n<module> (train.py:60)\n"
    facts = []
    for rank in range(3):
        environ = {"WORLD_SIZE": "4", "SLURM_STEP_NUM_TASKS": "3", "SLURM_PROCID": str(rank)}
        facts += looks(rank, train if rank else ELSEWHERE, environ=environ)
    assert 3 not in (report_of(facts).findings[0].culprit_ranks or ())


def test_a_task_that_ended_is_missed_on_its_slurm_node() -> None:
    """Slurm tells each task which ranks run beside it; one of them has no process any more."""
    facts = []
    for rank in (0, 1):
        environ = {
            "SLURM_PROCID": str(rank),
            "SLURM_STEP_NUM_TASKS": "4",
            "SLURM_GTIDS": "0,1,2",
            "SLURMD_NODENAME": "n1",
            "SLURM_STEP_NODELIST": "n[1-2]",
            "SLURM_STEP_TASKS_PER_NODE": "3,1",
        }
        facts += looks(rank, INIT, environ=environ)
    report = report_of(facts)
    assert report.findings[0].culprit_ranks == (2,)
    assert "n1" in report.headline
    assert {row.rank: row.host for row in report.ranks}[3] == "n2"
    assert any("rank 3 on n2" in gap for gap in report.gaps)


def test_a_rank_of_the_start_before_holds_up_those_that_were_restarted() -> None:
    """Restart counts differ and the old rank is through its start: it will not come again."""
    old = looks(0, ELSEWHERE, environ={"TORCHELASTIC_RESTART_COUNT": "0", "WORLD_SIZE": "2"})
    threads = (ThreadState(tid=1, name="gloo_tcp_loop", state="S"),)
    met = [replace(f, threads=threads) if isinstance(f, Process) else f for f in old]
    new = looks(1, INIT, environ={"TORCHELASTIC_RESTART_COUNT": "1", "WORLD_SIZE": "2"})
    finding = report_of([*met, *new]).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("elastic-restart", (0,))
    late = report_of([*old, *new]).findings[0]
    assert (late.category, late.culprit_ranks) == ("init-missing-rank", (0,))


def test_a_rank_that_trains_is_not_missing_at_the_start() -> None:
    """Who has the threads of a backend was in init_process_group and is not late for it."""
    threads = (ThreadState(tid=1, name="pt_gloo_runloop", state="S"),)
    facts = looks(0, ELSEWHERE, environ={"WORLD_SIZE": "2"})
    met = [replace(f, threads=threads) if isinstance(f, Process) else f for f in facts]
    report = report_of([*met, *looks(1, INIT, environ={"WORLD_SIZE": "2"})])
    assert "init-missing-rank" not in {f.signature for f in report.findings}


def test_a_late_rank_is_slow_only_where_it_was_seen_to_go_on() -> None:
    """Two places in two looks: it comes yet. One place: the job hangs on it."""
    environ = {"WORLD_SIZE": "2"}
    waits = looks(1, INIT, environ=environ)
    stands = report_of([*looks(0, ELSEWHERE, environ=environ), *waits])
    other = "tokenize (prepare.py:9)\nload (train.py:30)\n<module> (train.py:60)\n"
    moves = report_of([*looks(0, ELSEWHERE, other, environ=environ, woke=5), *waits])
    assert (stands.verdict, stands.findings[0].culprit_ranks) == ("hung", (0,))
    assert (moves.verdict, moves.findings[0].culprit_ranks) == ("slow", (0,))
    assert moves.findings[0].category == "init-missing-rank"


def test_durations_read_as_people_say_them() -> None:
    """Seconds up to two minutes, then the next larger unit."""
    assert [duration(s) for s in (8.4, 119, 120, 7300, 200_000)] == [
        "8 s",
        "119 s",
        "2 min",
        "2 h",
        "2 days",
    ]


WAITS_FOR_KEY = (
    "synchronize (torch/distributed/elastic/utils/store.py:80)\nsetup (train.py:12)\n"
    "<module> (train.py:60)\n"
)
NEW_GROUP = (
    "new_group (torch/distributed/distributed_c10d.py:5000)\nsetup (train.py:14)\n"
    "<module> (train.py:60)\n"
)


def ready(stacks: dict[int, str]) -> list[Fact]:
    """Make two looks at ranks that stand still."""
    environ = {"WORLD_SIZE": str(len(stacks))}
    return [fact for rank, text in stacks.items() for fact in looks(rank, text, environ=environ)]


def test_readers_of_a_key_are_not_blamed_while_a_rank_is_elsewhere() -> None:
    """Whoever waits for nobody may be the one to set the key; its readers are its victims."""
    report = report_of(ready({0: ELSEWHERE, 1: WAITS_FOR_KEY, 2: WAITS_FOR_KEY}))
    first = report.findings[0]
    assert (first.category, first.culprit_ranks) == ("store-key-never-set", (0,))
    assert first.affected_ranks == (1, 2)


def test_nobody_is_blamed_where_all_wait_for_a_key() -> None:
    """All ranks read and none sets: which of them should have is not known."""
    first = report_of(ready(dict.fromkeys(range(3), WAITS_FOR_KEY))).findings[0]
    assert (first.category, first.culprit_ranks) == ("store-key-never-set", None)
    environ = {"WORLD_SIZE": "3"}
    alone = report_of([*looks(1, WAITS_FOR_KEY, environ=environ)]).findings[0]
    assert (alone.category, alone.culprit_ranks) == ("store-key-never-set", None)


def test_a_rank_elsewhere_is_not_a_mismatch_of_groups() -> None:
    """One is late for new_group, another is no member and has gone on to a barrier: innocent."""
    report = report_of(ready({0: NEW_GROUP, 1: ELSEWHERE, 2: BARRIER}))
    assert report.findings[0].culprit_ranks == (1,)
    assert all(2 not in (finding.culprit_ranks or ()) for finding in report.findings)


def test_all_ranks_in_new_group_create_different_groups() -> None:
    """Nobody is missing and nobody is blamed; the order of the groups is what differs."""
    first = report_of(ready(dict.fromkeys(range(3), NEW_GROUP))).findings[0]
    assert (first.category, first.culprit_ranks) == ("group-creation-mismatch", None)


def nccl_log(rank: int, *last: str) -> str:
    """Print what NCCL says of one rank up to its network, and then some more lines."""
    who = f"node{rank // 2}:{100 + rank}:{170 + rank} [{rank % 2}] NCCL INFO "
    lines = ["Bootstrap: Using eth0:10.0.0.1<0>", "Using network Socket", *last]
    return "".join(f"{who}{line}\n" for line in lines)


def comm(rank: int, event: str) -> str:
    gpu = f"cudaDev 0 busId {rank + 1}000"
    return f"ncclCommInitRank comm 0x55{rank}0 rank {rank} nranks 3 {gpu} - {event}"


def nccl_report(last: dict[int, tuple[str, ...]]) -> Report:
    facts = [
        fact
        for rank, lines in last.items()
        for fact in read_log(nccl_log(rank, *lines), name=f"rank{rank}.log")
    ]
    return report_of(facts)


CHANNEL = "Channel 00/0 : 0[0] -> 1[1] [send] via P2P/IPC"


def test_a_rank_that_never_began_nccls_setup_is_named() -> None:
    """Two wait in the bootstrap; the third has not come to its first collective."""
    begun = {rank: (comm(rank, "Init START"),) for rank in (0, 1)}
    first = nccl_report({**begun, 2: ()}).findings[0]
    assert (first.signature, first.culprit_ranks) == ("nccl-start-incomplete", (2,))


def test_a_rank_that_is_not_through_nccls_setup_is_named_with_its_phase() -> None:
    """Complete on two of three; the third says which channel it connects."""
    done = {r: (comm(r, "Init START"), comm(r, "Init COMPLETE")) for r in (0, 2)}
    first = nccl_report({**done, 1: (comm(1, "Init START"), CHANNEL)}).findings[0]
    assert (first.signature, first.culprit_ranks) == ("nccl-start-incomplete", (1,))
    assert "complete on 2 of 3" in first.title
    assert "connecting its channels" in first.title


def test_nobody_is_blamed_where_all_stand_in_one_phase_of_nccls_setup() -> None:
    """The bootstrap points at the interfaces, channels from GPU to GPU at peer-to-peer access."""
    start = nccl_report({rank: (comm(rank, "Init START"),) for rank in range(3)})
    assert (start.verdict, start.findings[0].category) == ("hung", "nccl-network-interface")
    assert start.findings[0].culprit_ranks is None
    peer = nccl_report({rank: (comm(rank, "Init START"), CHANNEL) for rank in range(3)})
    assert peer.findings[0].category == "nccl-p2p-or-acs"


def test_a_setup_that_is_complete_or_has_led_to_steps_is_no_finding() -> None:
    """Later communicators may be open when a log is cut; a job that trains is not starting."""
    start = {rank: (comm(rank, "Init START"),) for rank in range(3)}
    ended = {rank: (*lines, comm(rank, "Init COMPLETE")) for rank, lines in start.items()}
    trains = {rank: (*lines, "step 12 loss 0.3") for rank, lines in start.items()}
    for last in (ended, trains):
        assert not [f for f in nccl_report(last).findings if f.signature.startswith("nccl-start")]


HERE, FAR = Address(host="127.0.0.1", port=9), Address(host="10.0.0.1", port=9)


def joins(rank: int, size: int, address: Address = HERE) -> InitArguments:
    """Say what a rank's call was given."""
    who, source = Who(rank=rank, pid=1000 + rank, trust=Trust.ENVIRONMENT), Source(file="claims")
    return InitArguments(world_size=size, address=address, who=who, source=source)


def test_a_call_with_another_world_size_is_named() -> None:
    """No environment says so; the call itself was given four by one rank and three by two."""
    facts = ready(dict.fromkeys(range(3), INIT))
    calls = [joins(rank, 4 if rank == 1 else 3) for rank in range(3)]
    first = report_of([*facts, *calls]).findings[0]
    assert (first.category, first.culprit_ranks) == ("init-world-size-mismatch", (1,))


def test_a_rank_that_is_counted_and_nobody_is_misses() -> None:
    """All who came join a world of four on this host; on another host rank 3 may well be."""
    facts = ready(dict.fromkeys(range(3), INIT))
    here = [joins(rank, 4) for rank in range(3)]
    first = report_of([*facts, *here]).findings[0]
    assert (first.category, first.culprit_ranks) == ("init-missing-rank", (3,))
    assert first.signature == "init-joins-too-many"
    far = [joins(rank, 4, FAR) for rank in range(3)]
    assert "init-joins-too-many" not in {f.signature for f in report_of([*facts, *far]).findings}


def test_a_file_that_counts_no_more_than_came_tells_of_the_missing_rank() -> None:
    """Whoever joins through a file is counted in it, from whatever host."""
    facts = ready(dict.fromkeys(range(3), INIT))
    calls = [joins(rank, 4, Address(file="/shared/meet")) for rank in range(3)]
    file = FileView(
        who=Who(),
        source=Source(file="file_stores.json"),
        path="/shared/meet",
        asked_by=(1000, 1001, 1002),
        folder_exists=True,
        exists=True,
        processes=3,
    )
    first = report_of([*facts, *calls, file]).findings[0]
    assert (first.signature, first.culprit_ranks) == ("init-joins-too-many", (3,))
    more = replace(file, processes=4)
    ids = {f.signature for f in report_of([*facts, *calls, more]).findings}
    assert "init-joins-too-many" not in ids
