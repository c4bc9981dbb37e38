"""A made-up training job on TP x DP x PP groups, with one fault, and the dumps it would leave.

Each rank has a program of calls, as Megatron makes them: tensor-parallel gathers and scatters
in every layer, activations and gradients between pipeline stages, a data-parallel reduction and
one reduction over all ranks per step. The device side is simulated: a rank's calls run in the
order of issue, each when all its members have come, and the host runs a few calls ahead. What
stands when nothing moves any more is what the recorders hold.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from fr_pickler import Frame, TorchPickler, integer

LAYERS = 4
MICROBATCHES = 2
STEPS = 3  # that are simulated; those before are taken to have gone well
RUN_AHEAD = 12
BEFORE = 1_000_000  # calls made before those that are counted here
START_NS = 1_758_610_000_000_000_000
SCRIPT = "/workspace/pretrain/"
LIBRARY = "/usr/local/lib/python3.12/dist-packages/torch/distributed/"


@dataclass(frozen=True)
class Group:
    """A process group; ``ranks`` are global."""

    name: str
    desc: str
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class Call:
    """One call of one rank's program. ``peer`` is a global rank; ``site`` names its stack."""

    op: str
    group: Group
    sizes: tuple[tuple[int, ...], tuple[int, ...]]
    site: str
    dtype: str = "BFloat16"
    peer: int | None = None
    endless: bool = False  # never completes; the batch of a send or receive is never closed

    @property
    def p2p(self) -> bool:
        """Whether it is a send or a receive."""
        return self.peer is not None


@dataclass
class Rank:
    """One rank of the job: its program of the last steps, and how far host and device came."""

    rank: int
    groups: list[Group]
    step: list[Call]
    program: list[Call]
    stops_at: int | None = None  # the host issues no call from here on
    breaks_at: int | None = None  # the device finishes no call from here on
    issued: int = 0
    done: int = 0
    numbers: list[int] = field(default_factory=list)  # of each call within its group


@dataclass
class Job:
    """All ranks, and who is to blame for what was done to them."""

    ranks: list[Rank]
    world: Group
    guilty: frozenset[int] = frozenset()
    absent: frozenset[int] = frozenset()


def build(
    world_size: int,
    tp: int,
    pp: int,
    layers: int = LAYERS,
    microbatches: int = MICROBATCHES,
    *,
    over_all: bool = True,
) -> Job:
    """Make a healthy job. ``world_size`` must be a multiple of tp x pp.

    Unless ``over_all``, no call is made over all ranks: then torch does not write that group.
    """
    dp = world_size // (tp * pp)
    names = iter(range(1, 10**6))
    world = Group("0", "default_pg", tuple(range(world_size)))
    of: dict[int, dict[str, Group]] = defaultdict(dict)
    for kind, lists in _meshes(tp, dp, pp).items():
        for ranks in lists:
            group = Group(str(next(names)), kind, tuple(ranks))
            for rank in ranks:
                of[rank][kind] = group
    job = Job(ranks=[], world=world)
    for number in range(world_size):
        own = of[number]
        groups = [world, *own.values()] if over_all else [*own.values()]
        reduced = world if over_all else own["DATA_PARALLEL_GROUP"]
        step = list(_step(number, own, reduced, tp, (layers, microbatches)))
        job.ranks.append(Rank(rank=number, groups=groups, step=step, program=step * STEPS))
    return job


def _meshes(tp: int, dp: int, pp: int) -> dict[str, list[list[int]]]:
    def at(t: int, d: int, p: int) -> int:
        return p * dp * tp + d * tp + t

    return {
        "TENSOR_MODEL_PARALLEL_GROUP": [
            [at(t, d, p) for t in range(tp)] for d in range(dp) for p in range(pp)
        ],
        "DATA_PARALLEL_GROUP": [
            [at(t, d, p) for d in range(dp)] for t in range(tp) for p in range(pp)
        ],
        "PIPELINE_MODEL_PARALLEL_GROUP": [
            [at(t, d, p) for p in range(pp)] for t in range(tp) for d in range(dp)
        ],
    }


def _step(
    rank: int, own: dict[str, Group], reduced: Group, tp: int, sizes: tuple[int, int]
) -> Iterator[Call]:
    """One training step: forward and backward of each microbatch, then the reductions."""
    tensor, data, pipe = own.values()
    pp, (layers, microbatches) = len(pipe.ranks), sizes
    stage = pipe.ranks.index(rank)
    hidden = (2048, 1, 4096)
    whole = (2048 * tp, 1, 4096)
    for _ in range(microbatches):
        if stage > 0:
            before = pipe.ranks[stage - 1]
            yield Call("recv", pipe, (hidden, hidden), "recv_forward", peer=before)
        for _ in range(layers):
            yield Call("_all_gather_base", tensor, (hidden, whole), "layer_gather")
            yield Call("_reduce_scatter_base", tensor, (whole, hidden), "layer_scatter")
        if stage < pp - 1:
            after = pipe.ranks[stage + 1]
            yield Call("send", pipe, (hidden, hidden), "send_forward", peer=after)
    for _ in range(microbatches):
        if stage < pp - 1:
            after = pipe.ranks[stage + 1]
            yield Call("recv", pipe, (hidden, hidden), "recv_backward", peer=after)
        for _ in range(layers):
            yield Call("_all_gather_base", tensor, (hidden, whole), "grad_gather")
        if stage > 0:
            before = pipe.ranks[stage - 1]
            yield Call("send", pipe, (hidden, hidden), "send_backward", peer=before)
    size = (len(data.ranks) * 4096,)
    yield Call("_reduce_scatter_base", data, (size, (4096,)), "reduce_grads", dtype="Float")
    yield Call("all_reduce", reduced, ((1,), (1,)), "grad_norm", dtype="Float")
    yield Call("_all_gather_base", data, ((4096,), size), "gather_params")


def run(job: Job, ahead: int = RUN_AHEAD) -> None:
    """Let the job run until nothing moves any more."""
    for rank in job.ranks:
        counts: Counter[str] = Counter()
        for call in rank.program:
            rank.numbers.append(counts[call.group.name])
            counts[call.group.name] += not call.p2p
        end = len(rank.program) if rank.stops_at is None else rank.stops_at
        rank.issued = min(end, ahead)
    moved = True
    while moved:
        moved = False
        for done in _complete(job):
            moved = True
            rank = job.ranks[done]
            rank.done += 1
            end = len(rank.program) if rank.stops_at is None else rank.stops_at
            rank.issued = min(end, rank.done + ahead)


def _complete(job: Job) -> list[int]:
    """Find the ranks whose oldest call can complete now."""
    heads = {
        r.rank: r.program[r.done]
        for r in job.ranks
        if r.done < r.issued and (r.breaks_at is None or r.done < r.breaks_at)
        if not r.program[r.done].endless
    }
    # A broken device has still sent its part, so its peers finish; it does not.
    broken = {
        r.rank: r.program[r.done]
        for r in job.ranks
        if r.done < r.issued and r.breaks_at is not None and r.done == r.breaks_at
    }
    at: dict[tuple[str, int], list[int]] = defaultdict(list)
    ready: list[int] = []
    for rank, call in (*heads.items(), *broken.items()):
        if call.peer is None:
            at[call.group.name, job.ranks[rank].numbers[job.ranks[rank].done]].append(rank)
            continue
        other = heads.get(call.peer)
        if other is not None and other.peer == rank and other.op != call.op and rank in heads:
            ready.append(rank)
    for members in at.values():
        calls = [heads.get(rank, broken.get(rank)) for rank in members]
        first = calls[0]
        if first is None or len(members) != len(first.group.ranks):
            continue
        if all(c is not None and (c.op, c.sizes, c.dtype) == _what(first) for c in calls):
            ready += [rank for rank in members if rank in heads]
    return ready


def _what(call: Call) -> tuple[str, tuple[tuple[int, ...], tuple[int, ...]], str]:
    return call.op, call.sizes, call.dtype


# --- faults ----------------------------------------------------------------------------------


class Where:
    """Chooses where in a rank's program something goes wrong: the last time, or at random."""

    def __init__(self, seed: int | None = None) -> None:
        self.random = None if seed is None else random.Random(seed)

    def of(self, rank: Rank, *sites: str) -> int:
        """Choose a call of one of these kinds."""
        positions = [
            n
            for n, call in enumerate(rank.program)
            if call.site in sites and len(call.group.ranks) > 1
        ]
        if self.random is None:
            return positions[-1]
        # Not in the last step: behind it the job ends, and who has ended waits for nobody.
        return self.random.choice([n for n in positions if n < len(rank.step) * (STEPS - 1)])


Fault = Callable[[Job, Sequence[int], Where], None]
_LAYERS = ("layer_gather", "layer_scatter", "grad_gather")
_COLLECTIVES = (*_LAYERS, "reduce_grads", "grad_norm", "gather_params")


def _same_place(job: Job, guilty: Sequence[int], where: Where, *sites: str) -> Iterator[int]:
    """Choose one place for all who are guilty; each goes wrong when it comes there."""
    chosen = where.of(job.ranks[guilty[0]], *sites)
    call = job.ranks[guilty[0]].program[chosen]
    nth = sum(other.site == call.site for other in job.ranks[guilty[0]].program[:chosen])
    for number in guilty:
        program = job.ranks[number].program
        yield [n for n, other in enumerate(program) if other.site == call.site][nth]


def _missing(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(guilty, _same_place(job, guilty, where, *_COLLECTIVES), strict=True):
        job.ranks[number].stops_at = at


def _skipped(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(guilty, _same_place(job, guilty, where, "layer_scatter"), strict=True):
        del job.ranks[number].program[at]


def _extra(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(
        guilty, _same_place(job, guilty, where, *_LAYERS, "reduce_grads"), strict=True
    ):
        program = job.ranks[number].program
        program.insert(at + 1, program[at])


def _other_order(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(guilty, _same_place(job, guilty, where, "layer_gather"), strict=True):
        program = job.ranks[number].program
        program[at], program[at + 1] = program[at + 1], program[at]


def _changed(*sites: str, **changes: object) -> Fault:
    def fault(job: Job, guilty: Sequence[int], where: Where) -> None:
        for number, at in zip(guilty, _same_place(job, guilty, where, *sites), strict=True):
            program = job.ranks[number].program
            program[at] = replace(program[at], **changes)  # type: ignore[arg-type]

    return fault


def _broken(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(guilty, _same_place(job, guilty, where, *_LAYERS), strict=True):
        job.ranks[number].breaks_at = at


def _network(job: Job, guilty: Sequence[int], where: Where) -> None:
    """Nobody gets through one reduction over all ranks."""
    del guilty
    at = where.of(job.ranks[0], "grad_norm")
    nth = sum(call.site == "grad_norm" for call in job.ranks[0].program[:at])
    for rank in job.ranks:
        places = [n for n, call in enumerate(rank.program) if call.site == "grad_norm"]
        rank.program[places[nth]] = replace(rank.program[places[nth]], endless=True)


def _opposite(job: Job, guilty: Sequence[int], where: Where) -> None:
    """Let some take the group of all before that of data parallelism."""
    for number, at in zip(guilty, _same_place(job, guilty, where, "reduce_grads"), strict=True):
        program = job.ranks[number].program
        program[at], program[at + 1] = program[at + 1], program[at]


def _wrong_peer(job: Job, guilty: Sequence[int], where: Where) -> None:
    for number, at in zip(guilty, _same_place(job, guilty, where, "send_forward"), strict=True):
        program = job.ranks[number].program
        others = [r for r in program[at].group.ranks if r not in {number, program[at].peer}]
        program[at] = replace(program[at], peer=others[-1])


def _left_out(*sites: str) -> Fault:
    def fault(job: Job, guilty: Sequence[int], where: Where) -> None:
        for number, at in zip(guilty, _same_place(job, guilty, where, *sites), strict=True):
            del job.ranks[number].program[at]

    return fault


def _unclosed(job: Job, guilty: Sequence[int], where: Where) -> None:
    places = _same_place(job, guilty, where, "send_forward")
    for number, at in zip(guilty, places, strict=True):
        rank = job.ranks[number]
        rank.program[at] = replace(rank.program[at], endless=True)
        rank.stops_at = at + 1


def _left_loop(job: Job, guilty: Sequence[int], where: Where) -> None:
    """Let some have fewer batches, and go on to the barrier behind the loop."""
    del where
    for number in guilty:
        rank = job.ranks[number]
        del rank.program[-len(rank.step) :]
        one = ((1,), (1,))
        rank.program.append(Call("all_reduce_barrier", job.world, one, "end_of_epoch", "Float"))


def _records_lost(job: Job, guilty: Sequence[int], where: Where) -> None:
    _missing(job, guilty, where)
    rest = [r.rank for r in job.ranks if r.rank not in guilty]
    chance = where.random or random.Random(7)
    job.absent = frozenset(chance.sample(rest, len(rest) // 4))


def _few_records(job: Job, guilty: Sequence[int], where: Where) -> None:
    """Leave a quarter of the dumps, none of them of whom everyone waits for."""
    _missing(job, guilty, where)
    rest = [r.rank for r in job.ranks if r.rank not in guilty]
    chance = where.random or random.Random(7)
    job.absent = frozenset({*guilty, *chance.sample(rest, len(rest) - max(1, len(job.ranks) // 4))})


FAULTS: dict[str, Fault] = {
    "healthy": lambda job, guilty, where: None,  # noqa: ARG005
    "missing-rank": _missing,
    "skipped-call": _skipped,
    "extra-call": _extra,
    "other-order": _other_order,
    "other-operation": _changed("reduce_grads", op="all_reduce"),
    "other-size": _changed("reduce_grads", sizes=((8,), (8,))),
    "other-dtype": _changed("reduce_grads", dtype="Half"),
    "left-loop": _left_loop,
    "broken-device": _broken,
    "network-stuck": _network,
    "opposite-order": _opposite,
    "wrong-peer": _wrong_peer,
    "no-receive": _left_out("recv_forward", "recv_backward"),
    "no-send": _left_out("send_forward", "send_backward"),
    "unclosed-batch": _unclosed,
    "dumps-lost": _records_lost,
    "few-dumps": _few_records,
}
"""What can be done to a job. For the ``BLAMELESS`` nobody is guilty, or nobody can be named."""

BLAMELESS = frozenset(("healthy", "network-stuck", "few-dumps"))


def make(
    fault: str,
    world_size: int,
    tp: int,
    pp: int,
    guilty: Sequence[int],
    *,
    over_all: bool = True,
) -> Job:
    """Build a job, do something to it, and let it run into its hang."""
    job = build(world_size, tp, pp, over_all=over_all)
    FAULTS[fault](job, guilty, Where())
    job.guilty = frozenset() if fault in BLAMELESS else frozenset(guilty)
    run(job)
    return job


def make_at_random(seed: int) -> tuple[str, Job]:
    """Build a job of random shape with a random fault of one random rank; name the fault."""
    chance = random.Random(seed)
    while True:
        fault = chance.choice(sorted(FAULTS))
        tp, pp, dp = chance.choice((1, 2, 4)), chance.choice((1, 2, 3, 4)), chance.randint(1, 4)
        if not 2 <= tp * pp * dp <= 32 or (fault == "wrong-peer" and pp < 3):
            continue
        layers, microbatches = chance.randint(1, LAYERS), chance.randint(1, MICROBATCHES + 1)
        job = build(tp * pp * dp, tp, pp, layers, microbatches)
        guilty = chance.randrange(len(job.ranks))
        try:
            FAULTS[fault](job, [guilty], Where(chance.randrange(1 << 30)))
        except IndexError:  # this rank makes no call with which that can be done
            continue
        job.guilty = frozenset() if fault in BLAMELESS else frozenset((guilty,))
        run(job, chance.choice((1, 2, 5, RUN_AHEAD, 20)))
        return fault, job


# --- dumps -----------------------------------------------------------------------------------


def write(job: Job, folder: Path, entries: int) -> None:
    """Write a dump per rank with that many entries: old steps repeated, then the last ones."""
    folder.mkdir(parents=True, exist_ok=True)
    stacks: dict[str, list[Frame]] = {}
    # Every rank has made as many steps; its ring holds the end of them.
    steps = 3 + entries // min(len(rank.step) for rank in job.ranks)
    for rank in job.ranks:
        if rank.rank not in job.absent:
            path = folder / f"comm_lib_trace_rank_{rank.rank}"
            path.write_bytes(_Dump(rank, steps, entries, stacks).written())


class _Dump:
    """One rank's dump. Entries after the first of their kind differ in a few numbers only."""

    def __init__(
        self, rank: Rank, steps: int, entries: int, stacks: dict[str, list[Frame]]
    ) -> None:
        self.rank = rank
        self.stacks = stacks
        self.counts: dict[str, list[int]] = {g.name: [0, 0] for g in rank.groups}
        self.pickler = TorchPickler()
        self.templates: dict[tuple[object, ...], list[bytes]] = {}
        self.seen: set[tuple[object, ...]] = set()
        self.calls = [(call, True) for _ in range(steps) for call in rank.step]
        self.calls += [(call, n < rank.done) for n, call in enumerate(rank.program[: rank.issued])]
        self.order = 0
        before = list(itertools.accumulate(2 if call.p2p else 1 for call, _ in self.calls))
        self.first = before[-1] - entries
        if self.first not in before:
            self.first += 1  # torchfrtrace gives up where a ring begins within a batch

    def written(self) -> bytes:
        """Write everything."""
        pickler = self.pickler
        pickler.write(b"}(")
        for key, value in self._top().items():
            pickler.text(key)
            pickler.value(value)
        pickler.text("entries")
        pickler.write(b"](")
        for call, done in self.calls:
            self._launch(call, done=done)
        pickler.write(b"eu")
        pickler.remember(None)
        pickler.write(b".")
        return pickler.written()

    def _top(self) -> dict[str, object]:
        enqueued: dict[str, int] = {}
        completed: dict[str, int] = {}
        counts = {name: [0, 0] for name in self.counts}
        for call, done in self.calls:
            name, p2p = call.group.name, call.p2p
            counts[name][p2p] += 1
            enqueued[name] = counts[name][p2p]
            if done:
                completed[name] = counts[name][p2p]
        groups = {g.name: g for g in self.rank.groups}
        return {
            "version": "2.10",
            "pg_config": {
                name: {
                    "name": name,
                    "desc": groups[name].desc,
                    "ranks": str(list(groups[name].ranks)),
                }
                for name in sorted(groups)
            },
            "comm_lib_version": "2.27.3",
            "pg_status": {
                str(n): {
                    "last_enqueued_collective": enqueued.get(group.name, -1),
                    "last_started_collective": -1,
                    "last_completed_collective": completed.get(group.name, -1),
                }
                for n, group in enumerate(self.rank.groups)
            },
        }

    def _launch(self, call: Call, *, done: bool) -> None:
        counts = self.counts[call.group.name]
        counts[call.p2p] += 1
        if call.p2p:
            self._entry(call, self._name(call), done=False)
            if not call.endless:
                self._entry(replace(call, sizes=((), ())), "nccl:coalesced", done=done)
        else:
            self._entry(call, f"nccl:{call.op}", done=done)

    def _name(self, call: Call) -> str:
        ranks = call.group.ranks
        if call.peer is None:
            return call.op
        arrow = "->" if call.op == "send" else "<-"
        return f"nccl:{call.op} {ranks.index(self.rank.rank)}{arrow}{ranks.index(call.peer)}"

    def _entry(self, call: Call, name: str, *, done: bool) -> None:
        counts = self.counts[call.group.name]
        self.order += 1
        if self.order <= self.first:
            return  # overwritten since
        time = START_NS + self.order * 1_000_000
        numbers = (
            BEFORE + self.order, counts[0], counts[1], counts[0] + counts[1], time,
        )  # fmt: skip
        kind = (name, call.group.name, call.sizes, call.dtype, call.site, done)
        template = self.templates.get(kind)
        if template is None:
            template = self._template(call, name, done=done)
            if kind in self.seen:  # the first one defines texts; the second is like all others
                self.templates[kind] = template
            self.seen.add(kind)
        pickler = self.pickler
        pickler.write(template[0])
        for number, piece in zip((*numbers, time + 900_000), template[1:], strict=True):
            pickler.write(integer(number) if piece[:1] != b"N" else b"", piece)

    def _template(self, call: Call, name: str, *, done: bool) -> list[bytes]:
        """Write one entry in pieces, between which the numbers go."""
        own = TorchPickler()
        own.parts, own.memo = [], self.pickler.memo
        pieces: list[bytes] = []

        def cut() -> None:
            pieces.append(own.written())
            own.parts = []

        own.write(b"}(")
        own.text("frames")
        own.value(self._stack(call.site))
        own.text("record_id")
        cut()
        number = [g.name for g in self.rank.groups].index(call.group.name)
        for key, value in (
            ("pg_id", number),
            ("process_group", (call.group.name, call.group.desc)),
            ("thread_name", "pt_main_thread"),
            ("thread_id", str(140_000_000_000_000 + self.rank.rank)),
        ):
            own.text(key)
            own.value(value)
        for key in ("collective_seq_id", "p2p_seq_id", "op_id"):
            own.text(key)
            cut()
        own.text("profiling_name")
        own.text(name)
        own.text("time_created_ns")
        cut()
        shapes = [[list(shape)] if shape else [] for shape in call.sizes]
        for side, shape in zip(("input", "output"), shapes, strict=True):
            own.text(f"{side}_sizes")
            own.value(shape)
            own.text(f"{side}_dtypes")
            own.value([call.dtype] if shape else [])
        own.text("state")
        own.text("completed" if done else "scheduled")
        own.text("time_discovered_started_ns")
        own.value(None)
        own.text("time_discovered_completed_ns")
        cut()
        if not done:
            own.value(None)
        own.text("retired")
        own.value(done)
        own.text("timeout_ms")
        own.value(600_000)
        own.text("is_p2p")
        own.value(call.p2p)
        own.write(b"u")
        cut()
        return pieces

    def _stack(self, site: str) -> list[Frame]:
        if site not in self.stacks:
            line = 40 + 7 * len(self.stacks)
            common = self.stacks.setdefault(
                "",
                [
                    Frame("wrapper", f"{LIBRARY}c10d_logger.py", 83),
                    Frame("train_step", f"{SCRIPT}training.py", 310),
                    Frame("train", f"{SCRIPT}training.py", 512),
                    Frame("main", f"{SCRIPT}pretrain.py", 88),
                    Frame("<module>", f"{SCRIPT}pretrain.py", 120),
                ],
            )
            if site == "end_of_epoch":  # further down in the function that the loop is in
                self.stacks[site] = [
                    Frame("barrier", f"{LIBRARY}distributed_c10d.py", 4500),
                    common[0],
                    Frame("train", f"{SCRIPT}training.py", 530),
                    *common[3:],
                ]
                return self.stacks[site]
            self.stacks[site] = [
                Frame(site.split("_", maxsplit=1)[0], f"{LIBRARY}distributed_c10d.py", 2500 + line),
                common[0],
                Frame(site, f"{SCRIPT}parallel.py", line),
                *common[1:],
            ]
        return self.stacks[site]
