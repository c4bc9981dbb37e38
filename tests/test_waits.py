"""Where a thread stands: purpose, context and mechanism of a wait, by its Python frames."""

from __future__ import annotations

from place_docs import C10D, place, stack

from whyhang.analyzer.stacks import Scope, WaitKind


def test_collective_under_the_users_line() -> None:
    """A collective is named by torch's name, and the place to point at is the user's line."""
    spot = place(f"all_reduce ({C10D}:3252)", "step (train.py:29)", "<module> (train.py:40)")
    assert (spot.kind, spot.scope, spot.op) == (WaitKind.COLLECTIVE, Scope.RANKS, "all_reduce")
    assert spot.user == stack("step (train.py:29)")[0]
    assert (str(spot.says), spot.certain) == ("in all_reduce", True)


def test_unqualified_names_of_old_pythons() -> None:
    """Python 3.10 prints last components only; both forms are read alike."""
    for name in ("_try_get_data", "_MultiProcessingDataLoaderIter._try_get_data"):
        spot = place(
            "wait (threading.py:306)",
            "get (queue.py:179)",
            f"{name} (torch/utils/data/dataloader.py:1011)",
            "train (train.py:9)",
        )
        assert (spot.kind, spot.scope) == (WaitKind.DATALOADER, Scope.LOCAL)


def test_object_collective_keeps_both_names() -> None:
    """all_gather_object runs all_gather; the report says the one, the ledger needs the other."""
    spot = place(f"all_gather ({C10D}:1)", f"all_gather_object ({C10D}:2)", "f (train.py:3)")
    assert (spot.op, spot.api, str(spot.says)) == (
        "all_gather",
        "all_gather_object",
        "in all_gather_object",
    )


def test_store_barrier_belongs_to_whoever_opens_the_group() -> None:
    """The same inner frames mean start-up under init_process_group and a new group elsewhere."""
    inner = (f"_store_based_barrier ({C10D}:9)", f"_new_process_group_helper ({C10D}:8)")
    start = place(*inner, f"init_process_group ({C10D}:7)", "main (train.py:3)")
    later = place(*inner, f"new_group ({C10D}:7)", "main (train.py:3)")
    assert (start.kind, later.kind) == (WaitKind.INIT, WaitKind.GROUP)


def test_barrier_inside_new_group_is_the_group() -> None:
    """A collective that new_group runs for itself is not the user's collective."""
    spot = place(f"barrier ({C10D}:9)", f"new_group ({C10D}:7)", "main (train.py:3)")
    assert spot.kind is WaitKind.GROUP


def test_users_hook_inside_backward_is_not_backward() -> None:
    """A purpose does not count when the user's own code runs inside it; the context stays."""
    backward = (
        "_engine_run_backward (torch/autograd/graph.py:979)",
        "backward (torch/autograd/__init__.py:395)",
        "train (train.py:5)",
    )
    assert place(*backward).kind is WaitKind.BACKWARD
    spot = place("hook (train.py:77)", *backward, state="S", wchan="hrtimer_nanosleep")
    assert (spot.kind, spot.context) == (WaitKind.SLEEP, WaitKind.BACKWARD)
    assert spot.user == stack("hook (train.py:77)")[0]


def test_collective_inside_a_hook_inside_backward() -> None:
    """The innermost collective is the wait, whatever the user's code around it does."""
    spot = place(
        f"all_reduce ({C10D}:9)",
        "hook (train.py:77)",
        "_engine_run_backward (torch/autograd/graph.py:979)",
    )
    assert (spot.kind, spot.context) == (WaitKind.COLLECTIVE, WaitKind.BACKWARD)


DATASET = (
    "_MapDatasetFetcher.fetch (torch/utils/data/_utils/fetch.py:54)",
    "_worker_loop (torch/utils/data/_utils/worker.py:374)",
    "BaseProcess.run (multiprocessing/process.py:108)",
    "BaseProcess._bootstrap (multiprocessing/process.py:314)",
    "Popen._launch (multiprocessing/popen_fork.py:71)",
    "BaseProcess.start (multiprocessing/process.py:121)",
    "DataLoader.__iter__ (torch/utils/data/dataloader.py:505)",
    "train (train.py:9)",
)


def test_worker_busy_in_the_dataset() -> None:
    """A busy worker is placed in the dataset's line, with the dataset as context."""
    spot = place("Images.__getitem__ (data.py:31)", *DATASET, state="S", wchan="nfs_wait_bit")
    assert (spot.kind, spot.context) == (WaitKind.FILE, WaitKind.DATASET)
    assert spot.user == stack("Images.__getitem__ (data.py:31)")[0]


def test_worker_in_a_library_of_the_dataset() -> None:
    """A dataset without code of the user's own is still the dataset, not an idle worker."""
    spot = place("pil_loader (torchvision/datasets/folder.py:247)", *DATASET, state="S")
    assert (spot.kind, spot.scope) == (WaitKind.DATASET, Scope.LOCAL)


def test_forked_worker_does_not_inherit_the_parents_place() -> None:
    """Frames below the fork are the parent's past: an idle worker has no line in train.py."""
    spot = place(
        "_recv (multiprocessing/connection.py:390)",
        "Queue.get (multiprocessing/queues.py:113)",
        *DATASET[1:],
    )
    assert (spot.kind, spot.scope, spot.user) == (WaitKind.IDLE, Scope.IDLE, None)


def test_forked_process_under_a_collective_of_its_parent() -> None:
    """What the parent was in when it forked says nothing about the child."""
    spot = place(
        "work (pool.py:5)",
        "BaseProcess._bootstrap (multiprocessing/process.py:314)",
        "Popen._launch (multiprocessing/popen_fork.py:71)",
        f"barrier ({C10D}:9)",
        state="R",
    )
    assert (spot.kind, spot.user) == (WaitKind.WORK, stack("work (pool.py:5)")[0])


def test_context_keeps_the_purpose_inside_it() -> None:
    """A collective of a checkpoint is a collective, said to be part of the checkpoint."""
    spot = place(
        f"gather ({C10D}:9)",
        "_DistWrapper.reduce_scatter (torch/distributed/checkpoint/utils.py:197)",
        "save (torch/distributed/checkpoint/state_dict_saver.py:196)",
        "train (train.py:9)",
    )
    assert (spot.kind, spot.op, spot.context) == (
        WaitKind.COLLECTIVE,
        "gather",
        WaitKind.CHECKPOINT,
    )
    assert str(spot) == "in DCP's agreement on the checkpoint, saving a checkpoint"


def test_program_started_by_an_import() -> None:
    """Module-level code is part of an import; a program that an import started is not."""
    outer = ("_find_and_load (<frozen importlib._bootstrap>:1178)", "<module> (run.py:3)")
    module = place("<module> (slow.py:2)", *outer, state="S", wchan="hrtimer_nanosleep")
    program = place("train (job.py:9)", "<module> (job.py:20)", *outer, state="R")
    assert (module.context, program.context) == (WaitKind.IMPORT, None)


def test_lock_is_a_mechanism() -> None:
    """threading.wait speaks only where nothing says what the wait is for."""
    waits = ("wait (threading.py:320)",)
    assert place(*waits, "f (train.py:1)").kind is WaitKind.LOCK
    assert place(*waits, "get (queue.py:171)", "f (train.py:1)").kind is WaitKind.QUEUE
    assert place(*waits, f"barrier ({C10D}:1)", "f (train.py:1)").kind is WaitKind.COLLECTIVE


def test_a_users_folder_is_not_the_package_of_its_name() -> None:
    """Rules for whole packages do not speak of the user's own files."""
    mine = place("fetch (/home/me/requests/train.py:3)", state="R")
    theirs = place("send (requests/adapters.py:3)", "fetch (train.py:3)", state="S")
    assert (mine.kind, theirs.kind) == (WaitKind.WORK, WaitKind.NETWORK)
