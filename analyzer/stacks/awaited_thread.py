"""The thread that the main thread waits for, within its process."""

from collections.abc import Sequence

from whyhang.analyzer.facts import Thread, replace
from whyhang.analyzer.stacks.kinds import (
    BLOCKED_LOOP,
    BLOCKED_POOL,
    PROCESS_POOL,
    REQUESTS,
    SERVES,
    Manner,
    Place,
    Scope,
    WaitKind,
    last_name,
    phrase,
)
from whyhang.analyzer.stacks.threads import PlacedSnapshot, thread_place

# Kinds of wait that another thread of the process may have to end.
_HANDED_OVER = frozenset({WaitKind.QUEUE, WaitKind.LOCK, WaitKind.IDLE, WaitKind.BACKWARD})
_SERVED_BY_THREADS = frozenset(
    {WaitKind.JOIN, WaitKind.FUTURE, WaitKind.QUEUE, WaitKind.LOCK, WaitKind.BACKWARD}
)
_ENGINE = "pt_autograd"
"""How torch names autograd's own threads, one for each GPU; hooks run on them."""

# A thread in one of these waits itself: it is not what holds the main thread up.
_AIMLESS = frozenset({WaitKind.QUEUE, WaitKind.IDLE})
WAITS_FOR_RANKS = 4
"""The score of a thread that is in a collective; others that may be waited for have less."""

# Waits that a thread cannot end without the GIL, where no native stack says what it is at.
_NEEDS_GIL = frozenset({WaitKind.LOCK, WaitKind.QUEUE, WaitKind.JOIN, WaitKind.FUTURE})
_BOOTSTRAP = ("_bootstrap", "threading.py")
_POOL = ("_worker", "concurrent/futures/thread.py")
_EVENT_LOOP = ("_run_once", "asyncio/base_events.py")
_PROCESS_POOLS = ("concurrent/futures/process.py", "multiprocessing/pool.py")
_SERVED = (
    ("_run_function", "torch/distributed/rpc/internal.py"),
    ("process_request_thread", "socketserver.py"),
)
_RPC = "torch/distributed/rpc/api.py"


def follow_wait(place: Place, main: Thread, at: PlacedSnapshot) -> Place:
    """Follow the main thread's wait to the place of the thread which it waits for.

    Or to one that other ranks wait for: the thread that serves their calls.
    """
    if place.scope is Scope.THREAD or place.kind in _HANDED_OVER:
        place = _follow(place, main, at)
    if place.through is None and (
        place.op == REQUESTS or (place.frame is not None and place.frame.file.endswith(_RPC))
    ):
        place = _served(place, main, at)
    return place if place.through is not None else _with_gil_holder(place, main, at)


def _with_gil_holder(place: Place, main: Thread, at: PlacedSnapshot) -> Place:
    """Add who holds the GIL and where, if the main thread waits for it or may do so.

    A thread that holds the GIL and yet sleeps lets no other thread run any Python.
    """
    holder = next((t for t in at.dump.threads if t.holds_gil and t is not main), None)
    if holder is None:
        # Threads that run take turns at it: one look at such a wait proves nothing.
        return replace(place, certain=False) if place.kind is WaitKind.GIL else place
    through = f'which thread "{holder.name or holder.tid}" holds'
    its = thread_place(holder, at)
    place = place if its.user is None else replace(place, user=its.user, frame=its.frame)
    if place.kind is WaitKind.GIL:
        return replace(place, through=through, certain=holder.active is False)
    if holder.active is False and (not place.certain or place.kind in _NEEDS_GIL):
        return replace(
            place,
            kind=WaitKind.GIL,
            scope=Scope.LOCAL,
            says=phrase(WaitKind.GIL.value),
            certain=False,
            through=f"{through} while it sleeps",
        )
    return place


def _follow(place: Place, main: Thread, at: PlacedSnapshot) -> Place:
    """Go on to the thread that the main thread waits for, if it is known which one."""
    threads = [t for t in at.dump.threads if t is not main and _may_be_awaited(place, t, at)]
    if place.kind is WaitKind.FUTURE:
        ends_it = [t for t in threads if _has_frame(t, _POOL) or _runs_processes(t)]
        threads = ends_it or threads
    places = [thread_place(t, at) for t in threads]
    if place.kind is WaitKind.FUTURE and not any(map(_runs_processes, at.dump.threads)):
        blocked = _all_wait_in_pool(threads, places)
        if blocked is not None:
            return blocked
    scored = [(score, p) for p in places if (score := _score(place, p)) > 0]
    if not scored and place.kind is WaitKind.FUTURE and any(map(_runs_processes, threads)):
        says = phrase("waiting for a result of its process pool")
        return replace(place, scope=Scope.LOCAL, says=says, op=PROCESS_POOL)
    if not scored and place.kind is WaitKind.FUTURE and _has_frame(main, _EVENT_LOOP):
        says = phrase("waiting for its own event loop, which it blocks")
        return replace(place, scope=Scope.LOCAL, says=says, op=BLOCKED_LOOP)
    most = max((score for score, _ in scored), default=0)
    # Which of several threads sets an event is open, unless one of them waits for other ranks.
    if not scored or (place.kind is WaitKind.LOCK and len(scored) > 1 and most < WAITS_FOR_RANKS):
        return place
    best = [p for score, p in scored if score == most]
    chosen = best[0]
    alike = len({(p.kind, p.op, p.says) for p in best}) == 1
    named = place.scope is Scope.THREAD or place.kind is WaitKind.BACKWARD
    waits = place.says.manner is Manner.WAITING
    does = f"waits {place.says.wait}" if waits else f"is {place.says}"
    return replace(
        chosen,
        user=chosen.user or place.user,
        certain=chosen.certain and alike and named,
        through=f'on thread "{chosen.thread or chosen.tid or ""}" while the main thread {does}',
        main_op=place.api or place.op,
    )


def _may_be_awaited(place: Place, thread: Thread, at: PlacedSnapshot) -> bool:
    if place.kind is WaitKind.BACKWARD:
        named = at.process.threads if at.process is not None else ()
        engine = {each.tid for each in named if each.name.startswith(_ENGINE)}
        return thread.tid in engine if engine else not _has_frame(thread, _BOOTSTRAP)
    if place.kind is WaitKind.IDLE:
        return place.frame is not None and "asyncio" in place.frame.file
    if place.kind is WaitKind.LOCK:
        # An event or condition may be set by a thread; a bare lock leaves no such frame.
        return place.frame is not None and place.frame.file.endswith("threading.py")
    return True


def _runs_processes(thread: Thread) -> bool:
    """Return whether a thread manages a pool of processes, which end futures as well."""
    return any(f.file.endswith(_PROCESS_POOLS) for f in thread.frames)


def _has_frame(thread: Thread, wanted: tuple[str, str]) -> bool:
    name, file = wanted
    return any(last_name(f) == name and f.file.endswith(file) for f in thread.frames)


def _all_wait_in_pool(threads: Sequence[Thread], places: Sequence[Place]) -> Place | None:
    """Find a pool of which every thread waits for a task that only such a thread could run."""
    pool = [p for t, p in zip(threads, places, strict=True) if _has_frame(t, _POOL)]
    if not pool or any(p.kind is not WaitKind.FUTURE or p.user is None for p in pool):
        return None
    says = phrase("waiting for a task of a pool whose threads all wait for such tasks")
    return replace(pool[0], scope=Scope.LOCAL, says=says, op=BLOCKED_POOL)


def _served(place: Place, main: Thread, at: PlacedSnapshot) -> Place:
    """Find the call of another rank that this one serves and that has not come to its end.

    A server waits at its end for all others; that tells nothing while it has calls to answer. One
    that is held up comes before one that is at work, and that before one that waits for a third
    rank.
    """
    others = [t for t in at.dump.threads if t is not main]
    serving = (t for t in others if any(_has_frame(t, one) for one in _SERVED))
    own = [p for p in (thread_place(t, at) for t in serving) if p.user is not None]
    held = [p for p in own if p.scope in {Scope.LOCAL, Scope.THREAD}]
    held = held or [p for p in own if p.kind is WaitKind.WORK]
    held = held or [p for p in own if p.scope is Scope.RANKS]
    if not held:
        return place
    says = f"in a call that it serves, while its program is {place.says}"
    return replace(held[0], through=says, main_op=SERVES)


def _score(place: Place, other: Place) -> int:
    """Return how likely a thread is what the main thread waits for; 0: it is not."""
    if other.scope is Scope.RANKS and other.certain:
        return WAITS_FOR_RANKS
    if place.kind is WaitKind.LOCK and (
        other.kind is WaitKind.LOCK
        or other.scope is not Scope.LOCAL
        or not (other.certain or other.kind is WaitKind.SLEEP)
    ):
        return 0  # two locks of one process are a story of their own
    if place.kind not in _SERVED_BY_THREADS:
        return 0
    if place.kind is WaitKind.JOIN and other.kind is WaitKind.QUEUE and other.user is not None:
        return 1  # who is joined and waits for more work was not told that there is none
    if other.user is None or other.kind in _AIMLESS or other.scope is Scope.THREAD:
        return 0
    if other.kind in {WaitKind.LOCK, WaitKind.SLEEP}:
        return 1  # a heartbeat that waits for its next beat looks so, and produces nothing
    return 3 if other.certain else 2
