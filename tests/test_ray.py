"""From what Ray says of its actors to the nodes of a job; no Ray is needed for it."""

from __future__ import annotations

import msgspec
import pytest

from whyhang.analyzer.errors import TargetError
from whyhang.collectors.hosts.planners import ray
from whyhang.collectors.hosts.planners.ray import Actor, Node, State
from whyhang.collectors.live.frame_variables import read_numbers

CHANNEL = ("python", "ray_channel", "run")
NODES = (Node(id="a1", host="r1"), Node(id="b2", host="r2"), Node(id="c3", host="r3"))


def worker(node: str, pid: int, **more: str) -> Actor:
    fields = {"class_name": "RayTrainWorker", "state": "ALIVE", "job_id": "01", **more}
    return Actor(node_id=node, pid=pid, placement_group_id="g1", **fields)


CONTROLLER = Actor(class_name="TrainController", state="ALIVE", node_id="c3", pid=9, job_id="01")


def test_the_nodes_of_the_workers_are_reached_word_by_word() -> None:
    """Not those that only keep house; the workers' PIDs are known from Ray."""
    actors = (worker("b2", 7), worker("a1", 5), worker("a1", 4), CONTROLLER)
    reach = ray.plan(State(nodes=NODES, actors=actors), CHANNEL)

    assert reach.sentence == "2 nodes of Ray job 01 (3 RayTrainWorker) by an actor pinned to each"
    assert [(host.name, host.pids) for host in reach.hosts] == [("r1", (4, 5)), ("r2", (7,))]
    assert " ".join(reach.together) == ("python ray_channel run --node=a1=r1 --node=b2=r2 --")


def test_nodes_on_one_host_have_names_of_their_own() -> None:
    """As several raylets of a test cluster have."""
    nodes = (Node(id="a1aaaaaaaaaa", host="m"), Node(id="b2bbbbbbbbbb", host="m"))
    actors = (worker("a1aaaaaaaaaa", 5), worker("b2bbbbbbbbbb", 7))
    reach = ray.plan(State(nodes=nodes, actors=actors), CHANNEL)

    assert [host.name for host in reach.hosts] == ["m-a1aaaaaa", "m-b2bbbbbb"]


def test_a_worker_that_has_died_is_a_gap_with_what_ray_says() -> None:
    """Ray knows why, and its stack cannot be had."""
    dead = worker("b2", 7, state="DEAD", died="The node was terminated: OOM.")
    reach = ray.plan(State(nodes=NODES, actors=(worker("a1", 5), dead)), CHANNEL)

    assert [host.name for host in reach.hosts] == ["r1"]
    assert [gap.why for gap in reach.gaps] == [
        "Ray says that this actor is DEAD: The node was terminated: OOM."
    ]


def test_another_job_of_the_cluster_is_named() -> None:
    """The one with the most workers is looked at."""
    other = Actor(
        class_name="RolloutWorker", state="ALIVE", node_id="c3", pid=3, job_id="02",
        placement_group_id="g2",
    )  # fmt: skip
    reach = ray.plan(State(nodes=NODES, actors=(worker("a1", 5), worker("b2", 6), other)), CHANNEL)

    assert [host.name for host in reach.hosts] == ["r1", "r2"]
    assert [gap.what for gap in reach.gaps] == ["1 RolloutWorker of Ray job 02"]


def test_without_a_state_api_every_node_is_looked_at() -> None:
    """A cluster without its dashboard tells of nodes only, and the report says so."""
    reach = ray.plan(State(nodes=NODES, no_actors="no dashboard"), CHANNEL)

    assert [host.name for host in reach.hosts] == ["r1", "r2", "r3"]
    assert "no dashboard" in reach.gaps[0].why


def test_a_cluster_without_workers_is_reported_as_such() -> None:
    """With what else to try."""
    with pytest.raises(TargetError, match="no actors"):
        ray.plan(State(nodes=NODES, actors=(CONTROLLER,)), CHANNEL)


@pytest.mark.parametrize(("variable", "rank"), [("rank", 3), ("world_rank", 3), ("seed", None)])
def test_a_worker_is_numbered_by_its_training_thread(variable: str, rank: int | None) -> None:
    """Its main thread only waits for the next task."""
    local = {"name": variable, "addr": 1, "arg": False, "repr": "3"}
    runner = "/x/ray/train/v2/_internal/execution/worker_group/thread_runner.py"
    threads = [
        thread("MainThread", frame("main_loop", "/x/ray/_private/worker.py"), frame("<module>")),
        thread("T", frame("train_loop", locals_=[local]), frame("_run_target", runner)),
    ]

    assert read_numbers(msgspec.json.encode(threads)).rank == rank


def frame(name: str, file: str = "/job/train.py", locals_: list[object] | None = None) -> object:
    place = {"name": name, "filename": file, "module": None, "short_filename": file, "line": 1}
    return {**place, "locals": locals_ or []}


def thread(name: str, *frames: object) -> object:
    about = {"pid": 1, "thread_id": 1, "thread_name": name, "os_thread_id": 1, "active": False}
    return {**about, "owns_gil": False, "frames": list(frames)}
