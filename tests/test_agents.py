"""Launchers that wait for other nodes before any rank exists: read, counted, told apart."""

from __future__ import annotations

import base64
import json

from log_docs import of, read_log
from small_jobs import frames

from whyhang.analyzer.align import align
from whyhang.analyzer.facts import Agent, Fact, Process, Role, Source, StackDump, Thread, Trust, Who
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.job.launch import plan_of
from whyhang.analyzer.job.slurm_hosts import expand, hosts_of_ranks, other_hosts
from whyhang.analyzer.report import Report
from whyhang.collectors.live.probes.store import readable
from whyhang.signatures import load
from whyhang.signatures.frames import TABLE

C10D = """
_delay (torch/distributed/elastic/rendezvous/utils.py:181)
_DistributedRendezvousOpExecutor.run (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:685)
DynamicRendezvousHandler.next_rendezvous (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py:1171)
SimpleElasticAgent._rendezvous (torch/distributed/elastic/agent/server/api.py:528)
SimpleElasticAgent._invoke_run (torch/distributed/elastic/agent/server/api.py:916)
launch_agent (torch/distributed/launcher/api.py:374)
"""  # noqa: E501
WATCHING = """
SimpleElasticAgent._invoke_run (torch/distributed/elastic/agent/server/api.py:930)
launch_agent (torch/distributed/launcher/api.py:374)
"""
SETTINGS = """\
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254] Starting elastic_operator with launch configs:
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   entrypoint               : base.py
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   min_nodes                : 2
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   max_nodes                : 2
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   nproc_per_node           : 4
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   run_id                   : job1
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   rdzv_backend             : {backend}
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   rdzv_endpoint            : n1:{port}
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   rdzv_configs             : {{'rank': 1, 'timeout': 900}}
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]   max_restarts             : 3
I1121 23:06:53.918000 {pid} torch/distributed/launcher/api.py:254]
I1121 23:06:53.924000 {pid} torch/distributed/elastic/agent/server/api.py:912] [default] starting workers for entrypoint: python
I1121 23:06:53.925000 {pid} torch/distributed/elastic/agent/server/api.py:707] [default] Rendezvous'ing worker group
"""  # noqa: E501
MET = (
    "I1121 23:07:11.685000 {pid} torch/distributed/elastic/agent/server/api.py:553] [default] "
    "Rendezvous complete for workers. Result:\n"
)
RESTART = (
    "I1121 23:09:11.685000 {pid} torch/distributed/elastic/agent/server/api.py:925] [default] "
    "Worker group FAILED. 2/3 attempts left; will restart worker group\n"
)


def agent(pid: int, command: str, stack: str = C10D, **more: object) -> list[Fact]:
    """Give what a live look sees of one agent."""
    who = Who(host="n1", pid=pid, trust=Trust.NONE)
    process = Process(
        who=who, source=Source(file=f"processes.{pid}"), role=Role.LAUNCHER, command=command, **more
    )
    thread = Thread(frames=frames(stack), name="MainThread", tid=pid)
    dump = StackDump(who=who, tool="py-spy", threads=(thread,), source=Source(file=f"{pid}.json"))
    return [process, dump]


def report(facts: list[Fact]) -> Report:
    return diagnose(align(identify(facts), TABLE), load())


def logged(text: str) -> list[Agent]:
    return of(read_log(text), Agent)


def test_a_launchers_options_end_where_the_script_begins() -> None:
    """Options behind the script are the script's; both spellings and PET_ variables count."""
    plan = plan_of(
        "python -m torch.distributed.run --nnodes=2:4 --log-dir /x --rdzv_backend c10d "
        "--rdzv-endpoint n1 train.py --nnodes 9 --rdzv-id other",
        {"PET_RDZV_ID": "7", "PET_NNODES": "3"},
    )
    assert plan is not None
    assert plan.nodes() == (2, 4)
    assert plan.backend() == "c10d"
    assert plan.endpoint() == "n1:29400"
    assert plan.options["rdzv_id"] == "7"


def test_a_static_rendezvous_has_defaults() -> None:
    """Without any option, node 0 meets at 127.0.0.1:29500; a named node keeps its number."""
    plan = plan_of("torchrun --nnodes 2 --master_port=1234 train.py", {})
    assert plan is not None
    assert (plan.backend(), plan.endpoint(), plan.node_rank()) == ("static", "127.0.0.1:1234", 0)
    later = plan_of(
        "accelerate launch --num_machines 2 --num_processes 8 --machine_rank 1 t.py", {}
    )
    assert later is not None
    assert (later.nodes(), later.node_rank(), later.number("nproc_per_node")) == ((2, 2), 1, 4)


def test_other_programs_are_no_agents() -> None:
    """Mpirun and a training script meet nobody before their ranks start."""
    assert plan_of("mpirun -n 4 python train.py", {}) is None
    assert plan_of("python train.py --nnodes 2", {}) is None


def test_an_agent_alone_says_how_many_nodes_it_needs() -> None:
    """Of a c10d rendezvous no node has a number: nobody is blamed, what is needed is said."""
    answer = report(agent(7, "torchrun --nnodes 2 --rdzv-backend c10d --rdzv-endpoint n1:9 t.py"))
    assert answer.verdict == "hung"
    assert answer.findings[0].category == "init-missing-rank"
    assert answer.findings[0].culprit_ranks is None
    assert "2 nodes are needed" in answer.headline


OPENS_STORE = C10D.replace("_DistributedRendezvousOpExecutor.run", "X._create_tcp_store_server")


def test_an_agent_that_does_not_reach_its_own_store_waits_for_no_node() -> None:
    """The nodes have met before that store is opened; one node asks for no other."""
    answer = report(agent(7, "torchrun --standalone --nproc-per-node 2 t.py", OPENS_STORE))
    assert answer.verdict == "hung"
    assert [f.signature for f in answer.findings] == ["agent-not-at-its-own-store"]
    assert "_create_tcp_store_server" in answer.findings[0].evidence[-1].quote
    answer = report(agent(7, "torchrun --nnodes 2 --rdzv-backend c10d t.py", OPENS_STORE))
    assert [f.signature for f in answer.findings] == ["agent-not-at-its-own-store"]


def test_one_node_waits_for_no_other() -> None:
    """Where one node is all, and torchrun's default is one, no other is missing."""
    for command in ("torchrun --standalone t.py", "torchrun --nnodes 1 --rdzv-backend c10d t.py"):
        answer = report(agent(7, command))
        assert "agent-waits-for-nodes" not in [f.signature for f in answer.findings]


def test_a_missing_node_of_a_static_rendezvous_is_named_with_its_ranks() -> None:
    """Node 0 holds the store and sees who is connected; node 1 of two is missing."""
    held = ("tcp [::]:9 listen", "tcp 10.0.0.1:9 -> 10.0.0.1:400 established")
    command = "torchrun --nnodes 2 --nproc-per-node 4 --master-addr n1 --master-port 9 t.py"
    answer = report(agent(7, command, descriptors=held))
    assert answer.findings[0].culprit_ranks == (4, 5, 6, 7)
    both = (*held, "tcp 10.0.0.1:9 -> 10.0.0.2:400 established")
    answer = report(agent(7, command, descriptors=both))
    assert answer.findings[0].culprit_ranks is None


def test_an_agent_that_is_seen_and_writes_a_log_is_one() -> None:
    """What its log says of it is no second agent at another meeting."""
    held = ("tcp [::]:9 listen", "tcp 10.0.0.1:9 -> 10.0.0.1:400 established")
    command = "torchrun --nnodes 2 --nproc-per-node 4 --master-addr n1 --master-port 9 t.py"
    log = SETTINGS.format(pid=7, backend="static", port=9).replace("job1", "none")
    answer = report([*agent(7, command, descriptors=held), *read_log(log + RESTART.format(pid=7))])
    assert answer.findings[0].category == "init-missing-rank"
    assert answer.findings[0].culprit_ranks == (4, 5, 6, 7)


def test_agents_sent_to_different_meetings_are_distinguished() -> None:
    """The odd one is named with its id; an agent that runs its ranks takes no part."""
    usual = "torchrun --nnodes 3 --rdzv-backend c10d --rdzv-endpoint n1:9 --rdzv-id a t.py"
    odd = usual.replace("--rdzv-id a", "--rdzv-id b")
    answer = report([*agent(7, usual), *agent(8, usual), *agent(9, odd)])
    assert answer.findings[0].signature == "agents-differ"
    assert "pid 9" in answer.headline
    assert "rdzv-id b" in answer.headline
    runs = report([*agent(7, usual), *agent(9, odd, stack=WATCHING)])
    assert [f.signature for f in runs.findings] == ["agent-waits-for-nodes"]


def test_a_log_that_ends_in_the_rendezvous_says_so() -> None:
    """The settings are read, and the agent waits until the log says that the nodes have met."""
    text = SETTINGS.format(pid=1, backend="static", port=9)
    (one,) = logged(text)
    assert (one.meeting, one.min_nodes, one.per_node, one.endpoint) == (True, 2, 4, "n1:9")
    assert (one.node_rank, one.backend, one.run_id) == (1, "static", "job1")
    (met,) = logged(text + MET.format(pid=1))
    assert met.meeting is False
    (again,) = logged(text + MET.format(pid=1) + RESTART.format(pid=1) + text.splitlines()[-1])
    assert (again.meeting, again.restarts) == (True, 1)


def test_slurms_list_of_hosts_is_expanded() -> None:
    """Ranges keep their zeros, several brackets multiply, plain names stay."""
    assert expand("n[01-03,7],login") == ("n01", "n02", "n03", "n7", "login")
    assert expand("r[1-2]c[1-2]x") == ("r1c1x", "r1c2x", "r2c1x", "r2c2x")


def test_slurm_says_which_host_a_rank_belongs_to() -> None:
    """Ranks fill the hosts in order, as many on each as Slurm says."""
    environ = {"SLURM_STEP_NODELIST": "n[1-3]", "SLURM_STEP_TASKS_PER_NODE": "2(x2),1"}
    assert hosts_of_ranks(environ) == ("n1", "n1", "n2", "n2", "n3")
    assert other_hosts(["n2"], [environ]) == ("n1", "n3")


def test_a_connected_agent_waits_and_one_that_is_not_knocks() -> None:
    """Whether a later node has reached the first one's store is seen in its sockets."""
    command = "torchrun --nnodes 3 --node-rank 1 --master-addr n0 --master-port 9 t.py"
    waits = report(agent(7, command, descriptors=("tcp 10.0.0.2:4 -> 10.0.0.1:9 established",)))
    assert waits.findings[0].signature == "agent-waits-for-nodes"
    knocks = report(agent(7, command, descriptors=("tcp 10.0.0.2:4 -> 10.0.0.1:9 syn-sent",)))
    assert knocks.findings[0].category == "init-master-unreachable"
    assert knocks.findings[0].culprit_ranks is None


def test_the_state_of_a_rendezvous_is_read_without_running_it() -> None:
    """Nodes, round and waiting list come out of the pickle; one that names a function is inert."""
    state = (
        "gASVaAEAAAAAAACMN3RvcmNoLmRpc3RyaWJ1dGVkLmVsYXN0aWMucmVuZGV6dm91cy5keW5hbWljX3JlbmRl"
        "enZvdXOUjBBfUmVuZGV6dm91c1N0YXRllJOUKYGUfZQojAVyb3VuZJRLAIwIY29tcGxldGWUiYwIZGVhZGxp"
        "bmWUTowGY2xvc2VklImMDHBhcnRpY2lwYW50c5R9lGgAjAlfTm9kZURlc2OUk5QpgZR9lCiMBGFkZHKUjAls"
        "b2NhbGhvc3SUjANwaWSUTfxcjAhsb2NhbF9pZJRLAHViSwBzjAl3YWl0X2xpc3SUj5SMD3JlZHVuZGFuY3lf"
        "bGlzdJSPlIwPbGFzdF9oZWFydGJlYXRzlH2UaA2MCGRhdGV0aW1llIwIZGF0ZXRpbWWUk5RDCgfqCxUXExsN"
        "w/6UaBmMCHRpbWV6b25llJOUaBmMCXRpbWVkZWx0YZSTlEsASwBLAIeUUpSFlFKUhpRSlHN1Yi4="
    )
    decoded = json.loads(readable(state) or "{}")
    assert decoded["nodes"] == ["localhost 23804"]
    assert (decoded["round"], decoded["complete"], decoded["waiting"]) == (0, False, [])
    assert readable(base64.b64encode(b"cos\nsystem\n(S'echo no'\ntR.").decode()) is None
    assert readable("10.0.0.1") is None
