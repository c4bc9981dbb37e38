"""Whom the words of launchers, debuggers and people mean, where a reader could tell."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding


def _first(**files: str) -> Finding:
    names = {name.replace("_", "."): text for name, text in files.items()}
    return diagnosed_files(names).findings[0]


def test_a_rank_that_only_its_launcher_saw_crash() -> None:
    """Where nobody's signature knows the words, the signal of a rank's end is said all the same."""
    text = (
        "rank 0 of 4 on nid00002 core 0\nrank 3 of 4 on nid00003 core 1\n"
        "_pmiu_daemon(SIGCHLD): [NID 00003] [c0-0c0s1n0] [Mon Nov 23 13:55:09 2026] "
        "PE RANK 3 exit signal Segmentation fault\n"
    )
    finding = _first(job_out=text)

    assert (finding.signature, finding.culprit_ranks) == ("rank-ended-by-signal", (3,))


def test_a_rank_that_a_program_of_its_own_saw_killed() -> None:
    """It names the rank, its process and the signal in one row."""
    text = (
        "AssertionError: workers [0, 1, 2] did not exit cleanly:\n"
        "  rank 0 (pid 6839): STILL RUNNING (timed out), NO RESULT\n"
        "  rank 1 (pid 6840): KILLED by SIGKILL, NO RESULT\n"
    )

    assert _first(test_log=text).culprit_ranks == (1,)


def test_of_ranks_that_were_ended_nobody_is_named() -> None:
    """SIGTERM is somebody else's word."""
    text = "PE RANK 3 exit signal Terminated\nPE RANK 2 exit signal Terminated\n"

    assert not any(f.culprit_ranks for f in diagnosed_files({"job.out": text}).findings)


def test_a_task_that_crashed_before_another_rank_aborted() -> None:
    """What a rank does of its own explains what follows from it: its partner's receive failed."""
    text = (
        "srun: error: nid00003: task 1: Segmentation fault\n"
        "srun: launch/slurm: _step_signal: Terminating StepId=4711.0\n"
        "MPICH ERROR [Rank 0] [job id 4711.0] [Mon Nov 23 14:32:54 2026] [nid00002] - "
        "Abort(1) (rank 0 in comm 0): Fatal error in PMPI_Recv: Other MPI error, error stack:\n"
    )
    assert _first(job_out=text).culprit_ranks == (1,)


@pytest.mark.parametrize("crashed", [(1,), (1, 3)])
def test_a_crash_that_has_no_label_is_of_those_whom_the_launcher_saw_crash(
    crashed: tuple[int, ...],
) -> None:
    """The handler of the signal tells a process, the launcher the tasks."""
    text = "rank 0 of 4 is up\n[n1:3595716:0:3595716] Caught signal 11 (Segmentation fault)\n"
    text += "".join(
        f"srun: error: n1: task {rank}: Segmentation fault (core dumped)\n" for rank in crashed
    )
    first = _first(job_err=text)
    assert first.culprit_ranks == crashed
    assert "segmentation fault" in first.title


WATCHDOGS = "".join(
    f"[Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=71, "
    f"OpType=BROADCAST, NumelIn={size}, NumelOut={size}, Timeout(ms)=600000) ran for 600097 "
    "milliseconds before timing out.\n"
    for rank, size in ((2, 4096), (3, 64))
)


@pytest.mark.parametrize(
    ("written", "ranks"),
    [
        ("Ranks 0, 1 and 3 broadcast 64 floats.\nRank 2 broadcasts 4,096 floats.", (2,)),
        ("Some broadcast 64 floats, and other ranks 4,096.", None),
    ],
)
def test_a_person_tells_which_of_two_is_alone(written: str, ranks: tuple[int, ...] | None) -> None:
    """Two ranks differ, and none is in the minority; what is written of others decides."""
    notes = f"The job hangs. With other debugging output I see in the same buffer:\n{written}\n"
    finding = _first(job_log=WATCHDOGS, notes_md=notes)

    assert (finding.category, finding.culprit_ranks) == ("collective-mismatch", ranks)


def test_the_rank_with_which_all_messages_fail() -> None:
    """MPICH prints the arguments of the call that failed; who receives from rank 3 waits for it."""
    failed = (
        "Fatal error in MPI_Recv: Other MPI error, error stack:\nMPI_Recv(buf=0x7ff0, count=1, "
        "MPI_INT, src={}, tag=0, MPI_COMM_WORLD, status=0x7ff8) failed\nOut of memory\n"
    )
    named = _first(job_log=failed.format(3) * 3)
    any_source = diagnosed_files({"job.log": failed.format("MPI_ANY_SOURCE")}).findings

    assert (named.signature, named.culprit_ranks) == ("mpi-message-failed", (3,))
    assert "mpi-message-failed" not in [finding.signature for finding in any_source]


WATCHDOG = (
    "It crashed at epoch 12:\n\n```\n[Rank {}] Watchdog caught collective operation timeout: "
    "WorkNCCL(SeqNum=70003, OpType=ALLREDUCE, ...) ran for 600000 milliseconds before timing "
    "out.\n```\n\ntorchrun --nproc_per_node=8 train.py\n"
)


def test_a_label_of_several_ranks() -> None:
    """Who shortens seven lines to one means all seven; the eighth rank is not among them."""
    assert _first(notes_md=WATCHDOG.format("1-7")).culprit_ranks == (0,)


def test_a_label_that_is_no_range_of_ranks() -> None:
    """A range that goes down, or of more ranks than one writes out, is none."""
    for label in ("7-1", "0-4095"):
        assert _first(notes_md=WATCHDOG.format(label)).culprit_ranks is None


SLOW_SAVE = "The job hangs every 2000 steps. {} a 500 MB checkpoint to a network file system.\n"


@pytest.mark.parametrize(
    ("sentence", "ranks"),
    [
        ("Rank 0 then saves", (0,)),
        ("Rank 0 waits in the barrier, and the others save", None),
        ("Ranks 1-7 all save", None),
        ("It saves", None),
    ],
)
def test_who_does_what_the_trouble_is_about(sentence: str, ranks: tuple[int, ...] | None) -> None:
    """The rank that the sentence begins with, if it does something; only as a possibility."""
    finding = _first(notes_md=SLOW_SAVE.format(sentence))

    assert (finding.category, finding.culprit_ranks) == ("checkpoint-stall", ranks)
    assert finding.confidence < 0.5


def test_a_pod_whose_environment_says_its_rank() -> None:
    """As ``kubectl describe`` shows it, below the name of the pod."""
    text = (
        "$ kubectl get po\nps-worker-4   0/1   Error   5   4m\n"
        "ps-worker-9   1/1   Running   0   4m\n"
        "$ kubectl describe pod ps-worker-4\n    Environment:\n      WORLD_SIZE:   4\n"
        "      RANK:   2\n$ kubectl describe pod ps-worker-9\n    Environment:\n      RANK:   3\n"
    )
    assert _first(kubectl_txt=text).culprit_ranks == (2,)


def test_the_actor_whose_label_and_line_say_both_pid_and_rank() -> None:
    """Ray names the pid of the actor that it lost; a line of that actor its rank."""
    text = (
        "(RayTrainWorker pid=501) [rank 0] step 4\n(RayTrainWorker pid=777) [rank 1] step 4\n"
        "(TrainController pid=90) The actor died unexpectedly before finishing this task.\n"
        "(TrainController pid=90) \tclass_name: RayTrainWorker\n"
        "(TrainController pid=90) \tpid: 777\n"
        "(TrainController pid=90) The actor died because its node has died. Node Id: b157c93d\n"
    )
    assert _first(ray_log=text).culprit_ranks == (1,)


GDB = (
    "{heading}\n(gdb) {where}\n{mark}0  0x00007fdebd30ac6d in poll () from /lib/libc.so.6\n"
    "{mark}1  0x00007fdebcc35891 in {inner} () at x.c:1\n"
    "{mark}2  0x0000000000400c44 in main (argc=1, argv=0x7fff71aabe98) at halo.c:{line}\n\n"
)


def test_headings_above_the_words_of_gdb_and_frames_without_their_mark() -> None:
    """The heading of a process stands above what gdb greets with; pages eat the mark of a frame."""
    for mark in ("#", ""):
        text = "".join(
            GDB.format(
                heading=f"MPI Rank {rank}\n\n[n1]$ gdb -p {4000 + rank}\nGNU gdb (GDB) 7.6",
                where="where", mark=mark, inner=inner, line=40 + rank,
            )
            for rank, inner in enumerate(("relax", "PMPI_Alltoall", "PMPI_Alltoall"))
        )  # fmt: skip
        launcher = GDB.format(heading="$ gdb -p 3999", where="where", mark=mark, inner="loop",
                              line=9)  # fmt: skip
        finding = _first(bt_txt=f"$ mpirun -np 3 ./halo\n{launcher}{text}")
        assert (finding.category, finding.culprit_ranks) == ("mpi-missing-rank", (0,))


@pytest.mark.parametrize(
    ("numbers", "signature"),
    [
        ("nranks 16 vs 16, nroots 1 vs 1, iroot 0 vs 0, offset 0 vs -981270526",
         "nccl-library-differs"),
        ("nranks 16 vs 8, nroots 1 vs 1, iroot 0 vs 0, offset 0 vs 0", "nccl-rank-count-mismatch"),
    ],
)  # fmt: skip
def test_what_does_not_fit_at_the_bootstrap_root(numbers: str, signature: str) -> None:
    """Of as many ranks it is the builds of NCCL that differ, else the sizes."""
    root = "n1:4:7 [0] bootstrap.cc:345 NCCL WARN Bootstrap Root : mismatch in info from procs"
    line = f"{root}, {numbers}\n"

    assert _first(nccl_log=line).signature == signature


def test_a_number_with_a_fraction_behind_the_word_rank_is_no_rank() -> None:
    """The effective rank of a matrix, on a host that the folder of the log names."""
    text = "".join(f"it {n} on host vm{n} effective rank 16{n}.4 (2.1s)\n" for n in range(1, 5))
    report = diagnosed_files({"vm/logs/job.log": text})
    assert not report.ranks
