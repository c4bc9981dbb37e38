"""What people write of ranks: who did not come, went, died, or does what no other does."""

from __future__ import annotations

import pytest
from log_docs import diagnosed_files

from whyhang.analyzer.report import Finding


def first(text: str, name: str = "issue.md") -> Finding | None:
    """Return what comes first in the diagnosis of one text."""
    return next(iter(diagnosed_files({name: text}).findings), None)


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        ("The run stalls early. Ranks 1 and 2 never print `epoch`.\n", (1, 2)),
        ("So rank 3 is the one not submitting its tensor while the others are.\n", (3,)),
        ("GPU 3 was the only process which did not log the end of the epoch.\n", (3,)),
        ("Why is rank3 stuck in another place?\n", (3,)),
        ("Two of three wait in the barrier, and ranks [1] are somewhere else.\n", (1,)),
        (
            "The kernel cannot complete because rank 5 has **not yet**\njoined the all-reduce.\n",
            (5,),
        ),
        ("The process with a rank of 3 leaves, the others stay in the barrier.\n", (3,)),
        ("Under load all GPUs except rank 0 raise a timeout.\n", (0,)),
        ("It is always stuck at rank 6: all other 31 ranks are waiting.\n", (6,)),
        (
            "Rank 0 seems to be writing its shard.\n\nRanks 1 and 2 seem to be waiting on it.\n",
            (0,),
        ),
        ("The rank0 process on A finishes before B does and leaves it hanging.\n", (0,)),
        ("- `Rank 1`: `Ranks 3 failed to pass the barrier`\n", (3,)),
        ("Ranks 0 and 4 stopped at call 9 while ranks 1, 2 and 3 hung in a reduction.\n", (0, 4)),
        ("rank1 was still JIT-compiling a kernel while rank0 sat in the all-reduce.\n", (1,)),
        ("The save is for the first alone, so **only rank 0 entered that barrier**.\n", (0,)),
        ("The other processes were waiting for rank-0 forward, which saved its shards.\n", (0,)),
        ("There is no output from rank 5 after step 40; the job stands.\n", (5,)),
        ("After an hour rank 3 went silent and the job stalled.\n", (3,)),
        ("Rank 2 is the straggler here.\n", (2,)),
        ("GPU 2 never reaches the barrier.\n", (2,)),
        ("Ranks 6/7 fell behind, and the 62 others were blocked.\n", (6, 7)),
        ("Rank 0 saved its shards for an hour while ranks 1 and 2 were waiting.\n", (0,)),
        ("It seems rank 3 is doing an all-reduce while the other ranks do an all-gather.\n", (3,)),
        ("The rank 0 gpu process exit first and the others hang.\n", (0,)),
        ("Its patience was over, so rank 1 broke from the loop while the rest hung.\n", (1,)),
    ],
    ids=[
        "never",
        "the one",
        "the only",
        "another place",
        "elsewhere",
        "not yet",
        "exits",
        "all but",
        "stuck at",
        "works",
        "ends first",
        "failed to",
        "stopped",
        "worked",
        "only",
        "awaited",
        "no output",
        "silent",
        "straggler",
        "gpu",
        "behind",
        "meanwhile",
        "another call",
        "exit",
        "broke off",
    ],
)
def test_who_is_elsewhere(text: str, ranks: tuple[int, ...]) -> None:
    """Several ways to say that a rank did not come."""
    finding = first(text)

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("said-to-be-elsewhere", ranks)


def test_items_of_a_list_are_sentences() -> None:
    """What is supposed in one takes nothing from the next, and is not said itself."""
    items = "- ranks 0 to 2 wait in the barrier\n- if it hangs, rank 3 never joins\n"

    before = first(f"The job hangs:\n\n{items}")
    found = first(f"The job hangs:\n\n{items}- rank 4 never joined the all-reduce\n")

    assert before is not None
    assert before.culprit_ranks is None
    assert found is not None
    assert found.culprit_ranks == (4,)
    assert found.evidence[0].quote == "rank 4 never joined the all-reduce"


@pytest.mark.parametrize(
    "text",
    [
        "After an hour rank 12 segfaulted and everything stood still.\n",
        "Then `Worker rank=[12] died unexpectedly`, and nothing answers.\n",
        "Rank 12 raised an IndexError in its collate function; the others hang.\n",
        "It was rank 12: rank 12 is the only one that crashed, the others hang.\n",
    ],
)
def test_who_died(text: str) -> None:
    """A rank that crashed, by what is written, ended."""
    finding = first(text)

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == ("rank-died", (12,))


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("If rank 3 has not joined in time, the job hangs.\n", "issue.md"),
        ("A rank that does not call the barrier makes the others wait.\n", "issue.md"),
        ("rank 3 did not join\n", "train.py"),
        ("Rank 0 is writing the checkpoint.\n", "issue.md"),
        ("Ranks 0 and 1 are waiting in the same place.\n", "issue.md"),
        ("The rank 1 update has never converged for this matrix.\n", "issue.md"),
        ("Rank 0 raised a timeout error after half an hour.\n", "issue.md"),
        ("Rank 0 failed because the connection was closed by its peer.\n", "issue.md"),
        ("rank 1 waits for rank 0, and rank 0 waits for rank 1.\n", "issue.md"),
        ("Ranks 0 and 1 waited for rank 2 and rank 3, respectively.\n", "issue.md"),
        ("Only rank 0 prints the loss.\n", "issue.md"),
        ("GPU 0 is running at 100 percent.\n", "issue.md"),
        ("Rank 0 loaded the model while it printed its progress.\n", "issue.md"),
        ("Rank 0 is the master while the other ranks are workers.\n", "issue.md"),
        ("Rank 0 is on another node than rank 1.\n", "issue.md"),
        ("Ranks 0 and 1 are stuck in different places.\n", "issue.md"),
        ("Rank 0 is the one that prints what the training does.\n", "issue.md"),
        ("Is rank 2 stuck? Has rank 2 crashed? How do I find out?\n", "issue.md"),
        ("Either rank 3 crashed, or the switch is broken.\n", "issue.md"),
        ("Not sure whether rank 7 never entered the all-reduce.\n", "issue.md"),
        ("I first thought rank 3 was the culprit; it waits as all others.\n", "issue.md"),
        ("Rank 5 failed to join at first; after a restart all 8 ranks came.\n", "issue.md"),
        ("- Fixed: rank 3 never joined the group.\n", "CHANGES.md"),
        ("In an older version rank 0 crashed and the others waited.\n", "issue.md"),
        ("Expected behavior: ranks 1-7 never print.\n", "issue.md"),
        ("# ranks 1 and 2 never reach this\nif rank == 0:\n    load()\n", "snippet.txt"),
        ('def test():\n    """Rank 1 never joins the barrier."""\n', "snippet.txt"),
        ("Only rank 0 runs the writer of the summaries.\n", "issue.md"),
        ("Rank 2 did not hit an error.\n", "issue.md"),
        ("Process 3 exited with code 0\n", "job.log"),
        ("waiting for rank 0 to download the data\nstep 0/1000 loss 1.0\n", "job.log"),
        ("Rank 0 is saving the checkpoint\nRank 0 saved\nRank 1 is waiting\n", "job.log"),
        ("Rank 0 is running collective: X, but rank 1 is running collective: Y\n", "issue.md"),
        ("Rank 3 exited early: patience reached\nRank 0 finished first\nbest 0.81\n", "job.log"),
        ("worker 1 won 2 points\nworker 2 lost 3 points\nrank 2 lost 3 points\n", "job.log"),
        ("INFO pool: rank 1 did not send a heartbeat for 10 s, yet.\n", "job.log"),
        ("rank 3 left all_reduce\nrank 1 left all_reduce\n", "job.log"),
        ("It took four seconds, as it was waiting for rank 0 to read a file.\n", "report.md"),
        (
            "Zero means rank 1 ended before rank 0; otherwise rank 1 was the straggler.\n",
            "report.md",
        ),
        ("| Rank 0 waits for rank 1 | a firewall, or rank 1 exited | start again |\n", "faq.md"),
        ("Rank 0 is responsible for saving the checkpoint. The others wait.\n", "docs.md"),
        ("rank 1, step 3\nrank 2, step 4rank 0, step 4\n\nrank 3, step 4\n", "job.log"),
        ("rank 1, step 3\nrank 2, step 4\nrank 0, step 4\nrank 3, step 4\n", "job.log"),
        ("I doubt why ranks 1 and 2 exit early, and do not hang in the barrier.\n", "issue.md"),
    ],
    ids=[
        "if",
        "a rule",
        "code",
        "one works",
        "all wait",
        "of a matrix",
        "timed out",
        "lost a peer",
        "each other",
        "two pairs",
        "prints",
        "a busy GPU",
        "all the while",
        "master",
        "another node",
        "each in its place",
        "the one that prints",
        "asked",
        "either",
        "not sure",
        "thought",
        "at first",
        "fixed",
        "older version",
        "expected",
        "comment",
        "docstring",
        "a role",
        "no error",
        "a clean exit",
        "a step follows",
        "a program",
        "a mismatch",
        "early stopping",
        "a score",
        "a level",
        "a print",
        "a turn",
        "otherwise",
        "a table",
        "what it is for",
        "steps that were printed into each other",
        "steps",
        "doubted",
    ],
)
def test_words_that_name_nobody(text: str, name: str) -> None:
    """What may be, what a program says or is, what all do."""
    finding = first(text, name)

    assert finding is None or not finding.culprit_ranks


def test_what_most_ranks_did_is_no_exception() -> None:
    """Fifteen of sixteen that have left are not who to look at first."""
    words = "Rank 0 entered validation, while ranks 1-15 skipped it and left the loop.\n"
    finding = first(words)

    assert finding is None or finding.culprit_ranks in {None, (0,)}


@pytest.mark.parametrize(
    ("text", "ranks"),
    [
        (
            "It hangs. Six ranks report call 1, while ranks 0 and 2 are already at a reduce.\n",
            (0, 2),
        ),
        (
            "- rank 0 state: in MPI_Allreduce\n- rank 1 state: unknown (no logs in this phase)\n",
            (1,),
        ),
        ("The run stalls: ranks 1\u20137 print `enter S3` last, rank 0 prints `enter X`.\n", (0,)),
        ("Hang at step 9. DP0-6 took the decode path, DP7 took the prefill path.\n", (7,)),
        ("7 of 8 ranks sit in the all-gather. Rank 5 walks a tree of prefixes.\n", (5,)),
        ("Seven of them are in the all-reduce, pid 44 (rank 3) is in `decode` of a file.\n", (3,)),
        ("100% on GPU 0-6, 0% on GPU 7. Rank 7 is in `next_item`. Others: ncclAllReduce.\n", (7,)),
        ("It hangs: rank 0 prints `a` and never `b`; ranks 1 to 7 are in the barrier.\n", (0,)),
    ],
    ids=["counted", "no logs", "printed", "paths", "walks", "of them", "in two ways", "a range"],
)
def test_few_of_whom_something_else_is_written(text: str, ranks: tuple[int, ...]) -> None:
    """The words are of no matter, only that the few do not do as the many."""
    finding = first(text)

    assert finding is not None
    assert (finding.signature, finding.culprit_ranks) == ("said-to-differ", ranks)
    assert finding.confidence < 0.5


@pytest.mark.parametrize(
    ("text", "category"),
    [
        ("It hangs with uneven data: rank 2 has 117 batches, the others 120.\n", "uneven-inputs"),
        (
            "It hangs around torch.save: rank 0 is in `save`, ranks 1-7 are in the barrier.\n",
            "checkpoint-stall",
        ),
        (
            "It hangs: rank 1 is in `__getitem__`, the others are in the barrier.\n",
            "dataloader-blocked",
        ),
        (
            "It hangs: rank 1 is in `route`, the others are in the barrier.\n",
            "missing-rank-in-collective",
        ),
    ],
)
def test_what_a_sentence_about_few_is_about(text: str, category: str) -> None:
    """What the sentence is about that names them tells what kind of trouble it is."""
    finding = first(text)

    assert finding is not None
    assert (finding.signature, finding.category) == ("said-to-differ", category)


@pytest.mark.parametrize(
    "text",
    [
        "Rank 0 loads the weights, ranks 1-7 receive them.\n",
        "It hangs: rank 0 waits in the barrier, ranks 1-7 are in the optimizer.\n",
        "It hangs: ranks 0 and 1 print A, ranks 2 and 3 print B.\n",
        "It hangs: ranks 1-7 never print A, rank 0 prints B.\n",
        "They got a dump signal from rank 3; ranks 0-7 hang.\n",
        "If it hangs, rank 0 is at the save and ranks 1-7 in the barrier.\n",
        "It hangs: rank 0 prints A, ranks 1-6 print B, rank 7 prints C.\n",
    ],
    ids=["a program", "waits", "halves", "never", "from", "if", "three kinds"],
)
def test_contrasts_that_name_nobody(text: str) -> None:
    """One rank that waits, halves, a source, a rule, a course with many parts."""
    finding = first(text)

    assert finding is None or finding.signature != "said-to-differ"


@pytest.mark.parametrize(
    ("text", "fine"),
    [
        ("A worker is killed by a signal at the end. It did not change the exit code.\n", True),
        ("The job stops with an error at each start. It is a false alarm.\n", True),
        ("The error comes 1,500 times on all ranks and is non-fatal.\n", True),
        ("This hangs. The job did not continue normally, and the error is fatal.\n", False),
        ("Rank 3 exited with code 0, the others hang in the barrier.\n", False),
    ],
)
def test_trouble_without_consequences(text: str, *, fine: bool) -> None:
    """Who has seen the job go on says that what looks like trouble is none."""
    finding = first(text)

    assert (finding is not None and finding.signature == "said-to-be-in-order") is fine


@pytest.mark.parametrize(
    ("call", "category"),
    [("MPI_Allreduce", "mpi-missing-rank"), ("all_reduce", "missing-rank-in-collective")],
)
def test_a_call_of_mpi_that_a_rank_is_not_in_is_one_of_mpi(call: str, category: str) -> None:
    finding = first(f"Rank 2 has not reached the {call}, all the others are stuck in it.\n")

    assert finding is not None
    assert (finding.category, finding.culprit_ranks) == (category, (2,))


def test_steps_that_ranks_print_are_nothing_that_somebody_writes() -> None:
    """Also where two lines were written into one another."""
    whole = "".join(f"rank {n} sums up step {step}\n" for step in (0, 1) for n in (3, 1, 2, 0))
    glued = (
        "rank 3 sums up step 2\nrank 1 sums up step 2\nrank 2 sums up step 3rank 0 sums up step 3"
    )
    report = diagnosed_files({"job.log": f"{whole}\n{glued}\n\nrank 1 sums up step 3\n"})
    assert not any(finding.culprit_ranks for finding in report.findings)
