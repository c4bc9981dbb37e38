"""Whose exception it is, as the labels of the programs that start ranks tell."""

import pytest
from log_docs import diagnosed_files


def raised(label: str, first: str = "", *, error: str = "ValueError: no such expert") -> str:
    """Return the traceback of a worker, each line behind its label."""
    lines = (
        f"{first}Traceback (most recent call last):",
        '  File "w/train.py", line 4, in main',
        "    route(batch)",
        error,
    )
    return "".join(f"{label}{line}\n" for line in lines)


SGLANG = raised("").replace("Tr", "[2025-11-21 02:05:11 TP2] Scheduler hit an exception: Tr", 1)
SIZES = "tensor_parallel_size={}, pipeline_parallel_size={}, data_parallel_size={}\n"
ASSIGNED = (
    "(Worker_DP1_TP1 pid=13) INFO rank 3 in world size 4 is assigned as "
    "DP rank 1, PP rank 0, TP rank 1, EP rank 3\n"
)
WORKERS = (
    "(TorchTrainer pid=9) - (node_id=a1, ip=10.0.0.7, pid=12) world_rank=0, local_rank=0\n"
    "(TorchTrainer pid=9) - (node_id=a2, ip=10.0.0.8, pid=12) world_rank=1, local_rank=0\n"
)


@pytest.mark.parametrize(
    ("log", "rank"),
    [
        (SIZES.format(4, 1, 1) + raised("(Worker_TP3 pid=13) "), 3),
        (raised("(Worker_TP1 pid=13) ") + "(Worker_TP0 pid=12) model loaded\n", 1),
        (ASSIGNED + raised("(Worker_DP1_TP1 pid=13) "), 3),
        ("server_args=ServerArgs(tp_size=4, pp_size=1, dp_size=1)\n" + SGLANG, 2),
        (SGLANG, 2),
        (SIZES.format(4, 2, 1) + raised("(Worker_PP1_TP1 pid=13) "), 5),
        ("python -m serve --tp 4 --pp-size 2\n" + SGLANG.replace("TP2", "TP2 PP1"), 6),
        (SGLANG.replace("TP2", "DP2 TP2 EP2"), 2),
        (WORKERS + raised("(RayTrainWorker pid=12, ip=10.0.0.8) "), 1),
        ("[default0]:step 1\n[default1]:step 1\n" + raised("[default1]:"), 1),
        ("[1,mpirank:0,algo-1]<stdout>:go\n" + raised("[1,mpirank:3,algo-1]<stderr>:"), 3),
        (raised("(worker1, rank=1, pid=32, ip=10.0.0.5) [rank9]: "), 9),
        (raised("localhost: [rank2]: "), 2),
        (raised("[rank-4] "), 4),
    ],
)
def test_the_rank_that_a_label_means(log: str, rank: int) -> None:
    """Where the log says how its labels count, they are ranks."""
    finding = diagnosed_files({"job.log": log}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (rank,))


@pytest.mark.parametrize(
    ("log", "name"),
    [
        (SIZES.format(4, 2, 2) + raised("(Worker_PP1_TP1 pid=13) "), "PP1 TP1"),
        (raised("(Worker_PP1_TP1 pid=13) "), "PP1 TP1"),
        (SIZES.format(2, 1, 2) + raised("(Worker_TP1 pid=13) "), "TP1"),
        ("(VllmWorker TP1 pid=22) ready\n" + raised("(VllmWorker TP1 pid=13) "), "TP1"),
    ],
)
def test_a_place_in_a_group_is_named(log: str, name: str) -> None:
    """A process with a place in a group is one of several, whose rank is not known."""
    finding = diagnosed_files({"job.log": log}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", None)
    assert finding.title.startswith(f"{name} ended")


@pytest.mark.parametrize("label", ["[TP5 EP5] ", "[2025-11-21 02:05:11 TP5] "])
def test_a_logged_exception_whose_words_are_cut_off(label: str) -> None:
    """The label stands in front of the first line alone, and the text ends within the stack."""
    lines = raised("").splitlines(keepends=True)[:3]
    log = f"{label}Scheduler hit an exception: {''.join(lines)}" + "".join(lines[1:])
    finding = diagnosed_files({"job.log": log}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("rank-died", (5,))


def test_the_number_of_a_node_is_no_rank() -> None:
    """SkyPilot's label counts nodes."""
    log = "(head, rank=0, pid=28) step 12\n" + raised("(worker1, rank=1, pid=32, ip=10.0.0.5) ")

    assert diagnosed_files({"job.log": log}).findings[0].culprit_ranks is None


def test_a_failure_of_all_is_the_programs() -> None:
    """What every labelled process raises is no rank's fault."""
    log = SGLANG + SGLANG.replace("TP2", "TP6")

    assert diagnosed_files({"job.log": log}).findings[0].category == "not-distributed"


def test_words_of_an_exception_are_of_who_began_it() -> None:
    """Only the first line of a logged traceback has the label."""
    log = "server_args=ServerArgs(tp_size=4, pp_size=1, dp_size=1)\n" + SGLANG.replace(
        "ValueError: no such expert", "torch.OutOfMemoryError: CUDA out of memory."
    )
    finding = diagnosed_files({"job.log": log}).findings[0]

    assert (finding.category, finding.culprit_ranks) == ("gpu-oom", (2,))
    alone = diagnosed_files({"job.log": log.partition("\n")[2]}).findings[0]
    assert (alone.title, alone.culprit_ranks) == ("Rank 2 ran out of GPU memory", (2,))


def test_the_header_of_a_logged_exception_tells_whose_it_is() -> None:
    """Python's logging prints it once, and the traceback below it bare."""
    header = "2025-11-21 02:05:00,123 {} [trainer:180, rank={}] {}\n"
    log = header.format("INFO", 0, "world_size=8") + header.format("ERROR", 5, "failed")
    finding = diagnosed_files({"job.log": log + raised("")}).findings[0]
    assert (finding.category, finding.culprit_ranks) == ("rank-died", (5,))

    log = header.format("INFO", 5, "step 12") + raised("")
    assert diagnosed_files({"job.log": log}).findings[0].culprit_ranks is None


def test_a_log_whose_process_says_which_rank_it_is() -> None:
    """One rank's own line stands for its whole log; those of several, and rank 0's, do not."""
    own = "WARNING - __main__ - Process rank: {}, device: cuda:{}, distributed training: True\n"
    for ranks, culprits in (((3,), (3,)), ((0,), None), ((2, 3), None)):
        log = "".join(own.format(rank, rank) for rank in ranks) + raised("")
        assert diagnosed_files({"job.log": log}).findings[0].culprit_ranks == culprits


@pytest.mark.parametrize("name", ["wx{}", "s{}", "gpu-b{}.local"])
def test_lines_that_begin_with_hosts(name: str) -> None:
    """Pdsh and its like write the host in front of every line, whatever it is called."""
    line = name + ": RANK={} LOCAL_RANK={} WORLD_SIZE=4\n"
    text = "".join(line.format(host, local, local) for local in (0, 1) for host in (1, 2))
    findings = diagnosed_files({"run.out": text}).findings
    (twice,) = [f for f in findings if f.signature == "init-duplicate-rank"]
    assert twice.culprit_ranks == (0, 1)
    assert name.format(1) in twice.explanation + twice.title

    alike = text.replace(name.format(1), "step1").replace(name.format(2), "step2")
    other = text.replace(name.format(2), "setup7")
    for text in (alike, other):
        found = {f.signature for f in diagnosed_files({"run.out": text}).findings}
        assert "init-duplicate-rank" not in found


STAGES = "".join(f"rank {n} -> stage{n // 2}.dp{n % 2}\n" for n in range(4))
PLACES = (0, 2, 1, 3), (3, 0, 2, 1), (1, 3, 0, 2)


def in_turn(label: str) -> str:
    """Return lines of four processes, each of which speaks again and again."""
    return "".join(f"{label.format(n)}step {s} done\n" for s, who in enumerate(PLACES) for n in who)


@pytest.mark.parametrize(
    ("log", "label", "rank"),
    [
        (STAGES, "[stage1.dp1] ", 3),
        ("stage0 is rank 1\nstage1 is rank 0\n", "stage1: ", 0),
        (in_turn("<{}> "), "<2> ", 2),
        (in_turn("({}) "), "(3) ", 3),
        (in_turn("[Rang {}/4] "), "[Rang 1/4] ", 1),
        (in_turn("进程{}: "), "进程3: ", 3),
        (in_turn("train-{}  | "), "train-2  | ", 2),
        (in_turn("(TPWorker tp={} pid=12) "), "(TPWorker tp=1 pid=12) ", 1),
        (in_turn("node{}: "), "node3: ", None),
        (in_turn("[epoch {}] "), "[epoch 3] ", None),
        (in_turn("w-{}  | rank 7 "), "w-2  | ", None),
        ("stage0 is rank 1\nstage0 is rank 0\n", "stage0: ", None),
    ],
)
def test_labels_in_a_program_s_own_words(log: str, label: str, rank: int | None) -> None:
    """They are ranks where a line says so, or where all count, in turn, as ranks do."""
    finding = diagnosed_files({"job.log": log + raised(label)}).findings[0]

    assert finding.culprit_ranks == (None if rank is None else (rank,))


LOGGED = "2025-03-02T10:14:{0:02d} speech.data INFO  r{1}: {2}\n"
SPEAKS = "".join(
    LOGGED.format(n, rank, f"{14_000 + 31 * rank} clips after the filter")
    for n, rank in enumerate((0, 1, 3, 2, 4, 5))
)
EPOCH = "".join(LOGGED.format(n + 30, r, "e0 finished, decoding") for n, r in enumerate((5, 2)))
STEPS = "".join(LOGGED.format(n + 30, r, f"e0 b{50 + n}") for n, r in enumerate((0, 1, 0, 3, 1, 4)))
GAVE_UP = (
    "RuntimeError: [gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 600000ms for {}"
)
WAITED = "".join(
    raised(f"[rank{r}]: ", error=GAVE_UP.format("recv operation to complete")) for r in (1, 0, 4, 3)
)


def test_a_short_label_behind_a_logger_s_name_is_a_rank() -> None:
    """Those that ended their epoch print what no other rank prints, and did not wait."""
    finding = diagnosed_files({"train.log": SPEAKS + STEPS + EPOCH + WAITED}).findings[0]

    assert finding.category == "missing-rank-in-collective"
    assert finding.culprit_ranks == (2, 5)


@pytest.mark.parametrize(
    "log",
    [
        SPEAKS + STEPS + WAITED,
        SPEAKS
        + STEPS.replace("e0 b5", "e0 finished, decoding part 5")
        + EPOCH.replace("decoding", "decoding part 5")
        + WAITED,
    ],
    ids=["nothing of their own", "the others did so, too"],
)
def test_of_several_silent_ranks_none_is_named_without_words_of_its_own(log: str) -> None:
    """What they print last is what the others print as well."""
    assert not any(f.culprit_ranks for f in diagnosed_files({"train.log": log}).findings)


@pytest.mark.parametrize(
    "form",
    [
        "{} LOCAL_RANK={}\n",
        "pid {}: RANK={}\n",
        "{} OMPI_COMM_WORLD_RANK={}\n",
        "{}: SLURM_PROCID={}\n",
        "  train | [[41022,1],{1}] | {1} | {0} | n027 | Running |\n",
    ],
    ids=["local", "global", "Open MPI", "Slurm", "orte-ps"],
)
def test_the_environment_of_processes_tells_their_ranks(form: str) -> None:
    """Who looked into /proc/PID/environ, or asked the launcher, wrote down pids and ranks."""
    rows = "".join(form.format(4410 + rank, rank) for rank in range(4))
    dump = 'Process {0}: python train.py\nThread {0} (active): "MainThread"\n    {1}\n\n'
    waits = "all_reduce (torch/distributed/distributed_c10d.py:2501)"
    reads = "read_shard (shards.py:41)"
    dumps = "".join(dump.format(4410 + r, reads if r == 2 else waits) for r in range(4))
    finding = diagnosed_files({"pids.txt": rows, "dumps.txt": dumps}).findings[0]

    assert finding.culprit_ranks == (2,)


def test_devices_of_which_one_is_missing_in_the_last_round_speak() -> None:
    """And what begins as they do is theirs, even where each has said it once."""
    rounds = ((48, (2, 1, 3, 0)), (49, (1, 3, 2)))
    log = "".join(f"step {step} device cuda:{n} is at 2\n" for step, own in rounds for n in own)
    behind = "".join(f"step 48 device cuda:{n} went past\n" for n in (3, 2))
    report = diagnosed_files({"job.log": log + behind})
    said = {row.rank: row.activity for row in report.ranks}
    assert said[0] == "last line: step 48 device cuda:0 is at 2"
    assert said[2] == "last line: step 48 device cuda:2 went past"


@pytest.mark.parametrize(("own", "rank"), [("RankID:2", 2), ("RankID:-1", 3)])
def test_the_header_of_an_npu_tells_rank_device_and_process(own: str, rank: int) -> None:
    """CANN knows the rank of HCCL alone; without it the device is a rank of one host."""
    log = (
        "torchrun --nproc-per-node 4 train.py\n"
        f"[ERROR] 2031-01-02-07:20:43 (PID:4103, Device:3, {own}) ERR00100 PTA call failed\n"
        "EZ9999[PID: 4103] 2031-01-02-07:20:43.817.613 (EZ9999):  Kernel task happen error, "
        "retCode=0x25, [aicore timeout].\n"
    )
    finding = diagnosed_files({"job.log": log}).findings[0]
    assert (finding.signature, finding.culprit_ranks) == ("npu-kernel-exception", (rank,))


def test_a_container_runtime_s_times_and_stream_stand_in_front_of_each_line() -> None:
    """They are no margin of the program's own: its label stands behind them."""
    head = "2031-07-25T07:53:08.21748708+08:00 stdout F "
    lines = [
        "[2031-07-25 07:53:08 TP2] Scheduler hit an exception: Traceback (most recent call last):",
        *('  File "/srv/run.py", line 9, in main', "    load()"),
        *('  File "/srv/io.py", line 4, in load', "    read()"),
    ]
    report = diagnosed_files({"pod.log": "".join(f"{head}{line}\n" for line in lines)})
    assert report.findings[0].culprit_ranks == (2,)
