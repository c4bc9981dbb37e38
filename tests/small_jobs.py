"""Small jobs for tests, written the way py-spy prints stacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from whyhang.analyzer.align import align
from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import (
    Counters,
    Excerpt,
    Fact,
    Frame,
    LoopCounter,
    Process,
    Role,
    Source,
    StackDump,
    Thread,
    Trust,
    Who,
    replace,
)
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.report import Report
from whyhang.signatures import load
from whyhang.signatures.frames import TABLE

ALL_REDUCE = """
all_reduce (torch/distributed/distributed_c10d.py:3100)
wrapper (torch/distributed/c10d_logger.py:83)
train (train.py:40)
<module> (train.py:60)
"""
BROADCAST = """
broadcast (torch/distributed/distributed_c10d.py:2900)
wrapper (torch/distributed/c10d_logger.py:83)
train (train.py:42)
<module> (train.py:60)
"""
BARRIER = """
barrier (torch/distributed/distributed_c10d.py:4900)
wrapper (torch/distributed/c10d_logger.py:83)
main (train.py:55)
<module> (train.py:60)
"""
LOADER = """
select (selectors.py:415)
wait (multiprocessing/connection.py:947)
_poll (multiprocessing/connection.py:440)
poll (multiprocessing/connection.py:257)
get (multiprocessing/queues.py:113)
_try_get_data (torch/utils/data/dataloader.py:1291)
_get_data (torch/utils/data/dataloader.py:1464)
_next_data (torch/utils/data/dataloader.py:1505)
__next__ (torch/utils/data/dataloader.py:725)
train (train.py:35)
<module> (train.py:60)
"""
WORKER = """
__getitem__ (dataset.py:12)
fetch (torch/utils/data/_utils/fetch.py:52)
_worker_loop (torch/utils/data/_utils/worker.py:349)
run (multiprocessing/process.py:108)
"""
INIT = """
_create_c10d_store (torch/distributed/rendezvous.py:190)
_env_rendezvous_handler (torch/distributed/rendezvous.py:280)
init_process_group (torch/distributed/distributed_c10d.py:1700)
wrapper (torch/distributed/c10d_logger.py:95)
main (train.py:20)
<module> (train.py:60)
"""
ELSEWHERE = """
evaluate (evaluate.py:33)
train (train.py:38)
<module> (train.py:60)
"""


def frames(text: str) -> tuple[Frame, ...]:
    """Read frames from lines such as ``all_reduce (torch/x.py:12)``, innermost first."""
    stack = []
    for line in text.strip().splitlines():
        name, _, place = line.strip().rpartition(" (")
        file, _, number = place.rstrip(")").rpartition(":")
        stack.append(Frame(function=name, file=file, line=int(number)))
    return tuple(stack)


def dump(
    rank: int | None, text: str, *, pid: int | None = None, look: int = 0, copies: int = 1
) -> StackDump:
    """Make a stack dump of one main thread."""
    pid = pid if pid is not None else 1000 + (rank or 0)
    thread = Thread(name="MainThread", tid=pid, frames=frames(text))
    trust = Trust.CONTENT if rank is not None else Trust.NONE
    return StackDump(
        who=Who(rank=rank, pid=pid, trust=trust),
        tool="py-spy",
        threads=(thread,),
        source=Source(file=f"rank{rank}.txt" if rank is not None else f"{pid}.txt", line=1),
        look=look,
        copies=copies,
    )


def process(
    rank: int,
    *,
    state: str = "S",
    look: int = 0,
    environ: Mapping[str, str] | None = None,
    switches: int = 10,
    woke: int = 0,
    ticks: int = 0,
    pid: int | None = None,
) -> Process:
    """Make a process record; ``woke`` switches and ``ticks`` happened before this look."""
    return Process(
        who=Who(
            rank=rank,
            pid=pid if pid is not None else 1000 + rank,
            trust=Trust.ENVIRONMENT,
            local_rank=rank,
        ),
        source=Source(file=f"processes/{1000 + rank}.look{look}.json"),
        look=look,
        taken_at=1000.0 + look,
        role=Role.RANK,
        state=state,
        environ=dict(environ or {}),
        before=Counters(cpu_ticks=ticks, switches=switches + woke),
        after=Counters(cpu_ticks=ticks, switches=switches + woke),
    )


def still(stacks: Mapping[int, str], *, world: int | None = None) -> list[Fact]:
    """Make two looks at ranks that did not run at all in between."""
    environ = {"WORLD_SIZE": str(world or len(stacks)), "MASTER_ADDR": "127.0.0.1"}
    facts: list[Fact] = []
    for rank, text in stacks.items():
        for look in (0, 1):
            facts += [process(rank, look=look, environ=environ), dump(rank, text, look=look)]
    return facts


def native(facts: Iterable[Fact]) -> list[Fact]:
    """Make the innermost frame of every stack a native one."""
    return [_native_top(fact) if isinstance(fact, StackDump) else fact for fact in facts]


def _native_top(dump: StackDump) -> StackDump:
    threads = tuple(
        replace(t, frames=(replace(t.frames[0], native=True), *t.frames[1:])) for t in dump.threads
    )
    return replace(dump, threads=threads)


def case_of(facts: Iterable[Fact]) -> Case:
    """Align facts with the project's own table of frames."""
    return align(identify(facts), TABLE)


def report_of(facts: Iterable[Fact]) -> Report:
    """Diagnose facts with all signatures."""
    return diagnose(case_of(facts), load())


def in_steps(
    steps: dict[int, str], stacks: dict[int, str] | None = None, *source: Excerpt
) -> Report:
    """Diagnose ranks in one all_reduce, with what each counts: "i=9 epoch=0 step@fit=3"."""
    facts: list[Fact] = [*still(stacks or dict.fromkeys(steps, ALL_REDUCE)), *source]
    for rank, text in steps.items():
        for pair in text.split():
            counted, _, value = pair.partition("=")
            name, _, function = counted.partition("@")
            facts.append(
                LoopCounter(
                    name=name,
                    value=int(value),
                    function=function or "train",
                    file="train.py",
                    who=Who(rank=rank),
                    source=Source(file="claims.json"),
                )
            )
    return report_of(facts)
