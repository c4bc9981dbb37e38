"""What goes wrong in made-up jobs (see ``log_job.py``), who did it, and what would prove it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import log_words as words
from log_job import (
    KILLS,
    LAUNCHERS,
    NEVER,
    Ends,
    Job,
    begin,
    connect,
    ends_of,
    give_up,
    print_ends,
    run_until_fault,
    steps,
)
from log_words import Torch, Voice

STORE_ERROR = "torch.distributed.DistStoreError"


def make(seed: int, kind: str | None = None) -> Job:
    """Make the job of a seed."""
    draw = random.Random(seed)
    kind = kind or list(FAULTS)[seed % len(FAULTS)]
    size = draw.choice((2, 3, 4, 4, 6, 8, 8, 8, 16, 24))
    hosts = 2 if size % 2 == 0 and size > 2 and draw.random() < 0.4 else 1
    job = Job(
        seed=seed,
        kind=kind,
        size=size,
        hosts=hosts,
        launcher=draw.choice(LAUNCHERS),
        backend="gloo" if draw.random() < 0.25 else "nccl",
        voice=Voice.of(draw),
        torch=Torch(draw.choice(words.VERSIONS)),
        draw=draw,
        offset=draw.choice((0.0, 2.5, -37.0, 410.0, -3600.0)) if hosts == 2 else 0.0,
        start=1_763_000_000 + draw.randrange(20_000_000),
        step=draw.choice((0, 0, 339, 11_999)),
        op=draw.choice(words.OPS),
        numel=draw.choice((1, 512, 4_194_304, 25_557_032)),
        limit=draw.choice((120, 600, 600, 1800)),
    )
    FAULTS[kind](job)
    job.lines.sort(key=lambda line: line.at)
    return job


def healthy(job: Job) -> None:
    """Let the job go through to its end."""
    at = run_until_fault(job)
    at = steps(job, at, 12, 1.5)
    end = job.draw.choice(
        (
            "training complete",
            "done in {d:.0f} s",
            "final checkpoint written to /ckpt/final",
            "bye",
            "best metric 0.871 at step 400",
            "Fertig.",
        )
    )
    for rank in job.ranks if job.voice.all_speak else (0,):
        job.own(rank, at + 1, end.format(d=at - job.start), "end")
    job.categories = frozenset({"healthy"})


def slow(job: Job) -> None:
    """Every step takes longer than the one before; nothing else is wrong when one looks."""
    at = run_until_fault(job)
    steps(job, at, 25, 1.5, growth=1.12)
    job.categories = frozenset({"slow-not-hung", "healthy", "unknown", "-"})


def elsewhere(job: Job) -> None:
    """One rank never comes to the call that the others are in."""
    at = run_until_fault(job)
    guilty = job.draw.randrange(job.size)
    others = [rank for rank in job.ranks if rank != guilty]
    categories = {"missing-rank-in-collective"}
    spread = job.draw.choice((0.02, 0.02, 4.0))
    entered = {rank: at + job.draw.uniform(0, spread) for rank in others}
    speaks = (job.voice.all_speak or guilty == 0) and job.draw.random() < 0.6
    if speaks:
        start, _, what = job.draw.choice(words.PHASES)
        job.own(guilty, at + 0.3, start.format(k=job.draw.randrange(100, 999), d=1.0), "phase")
        categories |= words.ALSO[what]
    ends = give_up(job, entered, behind=(guilty,))
    print_ends(job, ends)
    _blame_absent(job, guilty, others, ends)
    if speaks:
        job.proof((guilty, "phase"), among=[(rank, "timeout") for rank in others], least=1)
    job.categories = frozenset(categories)


def _blame_absent(job: Job, guilty: int, others: Sequence[int], ends: Ends) -> None:
    job.guilty = frozenset({guilty})
    fired = [one.at for one in job.lines for _, fact in one.facts if fact == "timeout"]
    echoes = any((guilty, "echo") in one.facts for one in job.lines)
    timed = job.backend == "nccl" and job.torch.tells_time  # else it might have come with them
    if fired and ends.until(guilty) > max(fired) + 1 and (timed or not echoes):
        job.proof(*((rank, "timeout") for rank in others), read=(guilty,))
    if job.backend == "nccl":
        job.proof(*((rank, "abrt") for rank in others), (guilty, "term"))
        job.proof((guilty, "lag"))


def late(job: Job) -> None:
    """One rank comes to the call when the others have given up."""
    at = run_until_fault(job)
    draw = job.draw
    guilty = draw.randrange(job.size)
    others = [rank for rank in job.ranks if rank != guilty]
    came = at + draw.uniform(1.05, 4) * job.limit
    entered = {rank: at + draw.uniform(0, 0.02) for rank in others}
    speaks = (job.voice.all_speak or guilty == 0) and draw.random() < 0.6
    start, end, what = draw.choice(words.PHASES)
    meets_nobody = draw.random() < 0.5  # notices at once; else waits until the limit, too
    if job.launcher in KILLS or meets_nobody:
        ends = give_up(job, entered, behind=(guilty,))
    else:
        ends = give_up(job, {**entered, guilty: came}, behind=(guilty,))
    if speaks:
        values = {"k": draw.randrange(100, 999), "d": came - at}
        job.own(guilty, at + 0.3, start.format(**values), "phase")
        if came < ends.until(guilty):
            job.own(guilty, came - 0.1, end.format(**values), "done")
        job.proof((guilty, "phase"), among=[(rank, "timeout") for rank in others], least=1)
    if meets_nobody and came < ends.until(guilty):
        peer = draw.choice(others)
        _see_peer_gone(job, guilty, came + 1, peer)
    print_ends(job, ends)
    if any((guilty, "timeout") in line.facts for line in job.lines):
        if job.torch.tells_time and job.backend == "nccl":
            among = [(rank, "timeout") for rank in others]
            job.proof((guilty, "timeout"), among=among, least=min(2, len(others)))
        if job.backend == "nccl":
            job.proof((guilty, "lag"))
    else:
        _blame_absent(job, guilty, others, ends)
    job.guilty = frozenset({guilty})
    job.categories = frozenset({"missing-rank-in-collective", "slow-not-hung"} | words.ALSO[what])


def fabric(job: Job) -> None:
    """All come to the call, some later than others, and it never completes."""
    at = run_until_fault(job)
    draw = job.draw
    entered = {rank: at + draw.uniform(0, 0.02) for rank in job.ranks}
    if job.launcher not in KILLS:  # else it would look as if the last had never come
        entered[draw.randrange(job.size)] += draw.choice((0.0, 9.0, 0.5 * job.limit))
    print_ends(job, give_up(job, entered))
    job.categories = frozenset(
        {
            "unknown",
            "-",
            "nccl-internal-error",
            "nccl-network-interface",
            "missing-rank-in-collective",
        }
    )


def crash(job: Job) -> None:
    """One rank dies; the others notice, give up or are ended."""
    at = run_until_fault(job)
    draw = job.draw
    guilty = draw.randrange(job.size)
    others = [rank for rank in job.ranks if rank != guilty]
    how = draw.choice(("raise", "raise", "raise", "gpu-oom", "kill", "segv", "raise-and-stay"))
    module = job.voice.module
    code, stays = {"kill": -9, "segv": -11}.get(how, 1), how == "raise-and-stay"
    if how in {"raise", "gpu-oom", "raise-and-stay"}:
        error, text, function, file = (
            words.GPU_OOM if how == "gpu-oom" else draw.choice(words.PROGRAM_ERRORS)
        )
        frames = (
            (f"/app/{module}.py", "main", 210, "loop(cfg)"),
            (f"/app/{module}.py", "loop", 118, "out = step(batch)"),
            (f"/app/lib/{file}", function, 77, f"return {function}_inner(x)"),
        )
        printed = words.traceback(job.torch, guilty, frames, error, text)
        job.lib(guilty, at, printed, "exception", evident=job.torch.number >= (2, 3))
    elif how == "segv":
        printed = (
            "Fatal Python error: Segmentation fault\n\nCurrent thread 0x00007f1c (most recent call "
            f'first):\n  File "/app/lib/fused.py", line 31 in apply\n  File "/app/{module}.py", '
            "line 118 in loop"
        )
        job.lib(guilty, at, printed, "exception", evident=False)
    died = at + draw.uniform(0.1, 2.0)
    ended = {} if stays else {guilty: (died, code)}
    if stays or (job.launcher not in KILLS and job.backend == "nccl"):
        entered = {rank: at + draw.uniform(0, 0.02) for rank in others}
        ends = give_up(job, entered, behind=(guilty,) if stays else (), ended=ended)
    else:
        ends = _lose_peer(job, others, guilty, died, code)
    print_ends(job, ends)
    job.guilty = frozenset({guilty})
    job.proof((guilty, "exception"))
    if code < 0:
        job.proof((guilty, "kill" if code == -9 else "segv"))
    elif all(ends.code(rank) != code for rank in others):
        job.proof((guilty, "exit"))
    job.categories = frozenset(
        {"rank-died", "not-distributed", "missing-rank-in-collective"}
        | {"gpu-oom": {"gpu-oom"}, "kill": {"rank-oom-killed"}}.get(how, set())
    )


def _lose_peer(job: Job, others: Sequence[int], guilty: int, died: float, code: int) -> Ends:
    """Let the others see connections close, if they live long enough."""
    draw = job.draw
    notice = {
        rank: died + draw.uniform(0.05, 3.0)
        for rank in others
        if job.backend == "gloo" or draw.random() < 0.6
    }
    fails = 1 if job.backend == "gloo" else -6
    own = {rank: (at + 0.3, fails) for rank, at in notice.items()}
    ends = ends_of(job, {**own, guilty: (died, code)})
    for rank, at in notice.items():
        if at >= ends.until(rank):
            continue
        near = (
            guilty
            if draw.random() < 0.5
            else draw.choice([r for r in others if r != rank] or [guilty])
        )
        if near != guilty and notice.get(near, NEVER) > at:
            near = guilty  # only who has ended closes connections
        _see_peer_gone(job, rank, at, near)
    return ends


def _see_peer_gone(job: Job, rank: int, at: float, peer: int) -> None:
    """Print that a rank finds the connection to a peer closed."""
    if job.backend == "nccl":
        group, shown = job.torch.group(rank), job.stamp(rank, at)
        whom = f"{job.name(job.host(peer))}<{40_000 + peer}>"
        printed = words.nccl_peer_gone(job.torch, shown, rank, group, job.work, whom)
        job.lib(rank, at, printed, "echo")
        return
    op = words.NAMES[job.op]
    frames = (
        (f"/app/{job.voice.module}.py", "main", 210, "loop(cfg)"),
        (f"/app/{job.voice.module}.py", "loop", 131, f"dist.{op}(x)"),
        *words.in_collective(op),
    )
    where = f"[{job.address(peer)}]:{20_000 + 37 * peer}"
    text = "[../third_party/gloo/gloo/transport/tcp/pair.cc:534] " + job.draw.choice(
        (f"Connection closed by peer {where}", f"Read error {where}: Connection reset by peer")
    )
    printed = words.traceback(job.torch, rank, frames, "RuntimeError", text)
    job.lib(rank, at, printed, "echo", evident=job.torch.number >= (2, 3))


def mismatch(job: Job) -> None:
    """One rank calls another operation, or the same with another size."""
    job.backend = "nccl"
    at = run_until_fault(job)
    draw = job.draw
    guilty = draw.randrange(job.size)
    others = [rank for rank in job.ranks if rank != guilty]
    other = draw.choice([op for op in words.OPS if op != job.op])
    may_differ = job.op == "ALLTOALL_BASE"  # in size, and match all the same
    same = not may_differ and draw.random() < 0.4
    call = (job.op, job.numel * 2 + 1) if same else (other, job.numel)
    entered = {rank: at + draw.uniform(0, 0.02) for rank in job.ranks}
    ends = give_up(job, entered, calls={guilty: call})
    print_ends(job, ends)
    job.guilty = frozenset({guilty})
    if job.size > 2:
        among = [(rank, "timeout") for rank in others]
        job.proof((guilty, "timeout"), among=among, least=2)
    job.categories = frozenset({"collective-mismatch"})


def absent(job: Job) -> None:
    """Leave some ranks out of the start."""
    draw = job.draw
    if job.hosts == 2 and draw.random() < 0.3:
        guilty = [rank for rank in job.ranks if job.host(rank) == 1]
    else:
        guilty = [draw.randrange(1, job.size)]
    here = [rank for rank in job.ranks if rank not in guilty]
    job.silent = frozenset(guilty) if draw.random() < 0.7 else frozenset()
    at = begin(job)
    how = draw.choice(("barrier", "clients", "key", "nccl"))
    _wait_for_absent(job, how, here, at)
    if how != "nccl":
        gave_up = here if how != "clients" else [0]
        print_ends(job, ends_of(job, dict.fromkeys(gave_up, (at + job.limit + 1, 1))))
    job.guilty = frozenset(guilty)
    if job.voice.all_speak and job.silent:
        job.proof(*((rank, "joined") for rank in here), read=guilty)
    if how == "barrier":
        job.proof(*((rank, "barrier") for rank in here))
    elif how == "key" and len(guilty) == 1:
        job.proof(among=[(rank, "key") for rank in here], least=1)
    elif how == "nccl":
        job.proof(*((rank, "nccl-start") for rank in here), read=guilty)
    job.categories = frozenset(
        {"init-missing-rank", "init-master-unreachable", "missing-rank-in-collective"}
    )


def _wait_for_absent(job: Job, how: str, here: Sequence[int], at: float) -> None:
    gone, lowest = at + job.limit, next(rank for rank in job.ranks if rank not in here)
    if how == "barrier":
        _store_barrier(job, here, at, gone)
    elif how == "nccl":
        connect(job, at, here, complete=False, asked=True)
    elif how == "clients":
        joined = f"{len(here)}/{job.size} clients joined."
        text = f"Timed out after {job.limit + 1} seconds waiting for clients. {joined}"
        _fail_to_start(job, 0, gone, text)
    else:
        for rank in here:
            key = f"/default_pg/0//cpu//0/{lowest}"
            text = f"wait timeout after {job.limit * 1000}ms, keys: {key}"
            _fail_to_start(job, rank, gone + 0.02 * rank, text, "key")


def _fail_to_start(
    job: Job, rank: int, at: float, text: str, *facts: str, error: str = STORE_ERROR
) -> None:
    frames = (
        (f"/app/{job.voice.module}.py", "main", 31, "dist.init_process_group(backend)"),
        (f"{words.LIBRARY}/distributed_c10d.py", "init_process_group", 1710, "_rendezvous(store)"),
    )
    job.lib(rank, at, words.traceback(job.torch, rank, frames, error, text), *facts, evident=True)


def _store_barrier(job: Job, here: Sequence[int], at: float, gone: float) -> None:
    timeout = f"{job.limit // 3600}:{job.limit % 3600 // 60:02d}:00"
    key = "store_based_barrier_key:1"
    inside = f"(world_size={job.size}, worker_count={len(here)}, timeout={timeout})"
    for rank in here:
        for tick in range(10, 40, 10):
            waiting = "Waiting in store based barrier to initialize process group for rank: "
            job.own(rank, at + tick, f"{waiting}{rank}, key: {key} {inside}", "barrier")
        waiting = "Timed out initializing process group in store based barrier on rank: "
        text = f"{waiting}{rank}, for key: {key} {inside}"
        _fail_to_start(job, rank, gone + 0.02 * rank, text, "barrier", error="RuntimeError")


FAULTS: dict[str, Callable[[Job], None]] = {
    "healthy": healthy,
    "slow": slow,
    "elsewhere": elsewhere,
    "late": late,
    "fabric": fabric,
    "crash": crash,
    "mismatch": mismatch,
    "absent": absent,
}
