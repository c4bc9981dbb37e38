"""A made-up job of N ranks under one fault, as a timeline of what is printed, and the truth.

Ranks start, take steps, and something goes wrong with some of them. What each of the others
does then follows from when it entered the call, the time limit, how soon a process that gave up
ends itself, and how soon a launcher ends the rest: a rank that was ended prints nothing more.
``log_faults.py`` makes the jobs and fixes the truth, ``log_layout.py`` writes what is printed into
files and damages them.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field

import log_words as words
from log_words import Torch, Voice

NEVER = float("inf")
LAUNCHERS = ("torchrun", "torchrun", "srun", "srun-kill", "mpirun", "pods")
KILLS = frozenset({"torchrun", "srun-kill", "mpirun"})
"""The launchers that end all ranks when one has failed."""


@dataclass(frozen=True)
class Line:
    """What is printed at one time; ``facts`` are what a reader learns, about whom.

    ``rank`` is None for a launcher's. ``evident``: the words say which rank (of all) they are of.
    """

    at: float
    rank: int | None
    host: int
    text: str
    facts: frozenset[tuple[int, str]] = frozenset()
    evident: bool = False


@dataclass(frozen=True)
class Proof:
    """What a reader must have before him to know who did it.

    All ``facts``, ``least`` of those ``among``, and something of the logs of ``read`` (whose
    silence says something only then).
    """

    facts: frozenset[tuple[int, str]]
    among: frozenset[tuple[int, str]] = frozenset()
    least: int = 0
    read: frozenset[int] = frozenset()

    def holds(self, known: frozenset[tuple[int, str]], read: frozenset[int]) -> bool:
        """Return whether what is left proves it."""
        return self.facts <= known and len(self.among & known) >= self.least and self.read <= read


@dataclass
class Job:
    """The timeline and the truth. ``categories`` are all that would be right."""

    seed: int
    kind: str
    size: int
    hosts: int
    launcher: str
    backend: str
    voice: Voice
    torch: Torch
    draw: random.Random
    offset: float = 0.0  # of the second host's clock
    guilty: frozenset[int] = frozenset()
    categories: frozenset[str] = frozenset()
    proofs: list[Proof] = field(default_factory=list)
    lines: list[Line] = field(default_factory=list)
    start: float = 0.0
    op: str = "ALLREDUCE"
    numel: int = 0
    seq: int = 0
    step: int = 0  # the last one
    limit: int = 600
    silent: frozenset[int] = frozenset()  # nothing at all is printed by these

    @property
    def per_host(self) -> int:
        """The ranks of one host."""
        return self.size // self.hosts

    def host(self, rank: int) -> int:
        """Return the host of a rank."""
        return rank // self.per_host

    def local(self, rank: int) -> int:
        """Return the local rank of a rank."""
        return rank % self.per_host

    def pid(self, rank: int) -> int:
        """Return the pid of a rank."""
        return 4000 + 131 * self.host(rank) + 7 * self.local(rank)

    def name(self, host: int) -> str:
        """Return the name of a host."""
        return f"gpu-{7 + host:02d}"

    def address(self, rank: int) -> str:
        """Return the address of the host of a rank."""
        return f"10.3.0.{21 + self.host(rank)}"

    @property
    def ranks(self) -> range:
        """All ranks."""
        return range(self.size)

    def clock(self, at: float, host: int) -> float:
        """Return the time that a host's clock shows."""
        return at + (self.offset if host else 0.0)

    def own(self, rank: int, at: float, text: str, *facts: str) -> None:
        """Print a line of the program."""
        host = self.host(rank)
        text = self.voice.says(
            self.clock(at, host), text, rank, self.size, self.pid(rank), self.local(rank)
        )
        self._print(rank, at, text, facts, evident=self.voice.tag in words.PLAIN_TAGS)

    def lib(
        self, rank: int, at: float, text: str, *facts: str, evident: bool | None = None
    ) -> None:
        """Print a line of torch or NCCL; ``text`` has its time already."""
        self._print(
            rank, at, text, facts, evident=self.torch.tells_rank if evident is None else evident
        )

    def _print(
        self, rank: int, at: float, text: str, facts: Iterable[str], *, evident: bool
    ) -> None:
        if rank not in self.silent:
            about = frozenset((rank, fact) for fact in facts)
            self.lines.append(Line(at, rank, self.host(rank), text, about, evident))

    def launch(self, at: float, host: int, text: str, *facts: tuple[int, str]) -> None:
        """Print a line of the launcher."""
        self.lines.append(Line(at, None, host, text, frozenset(facts), evident=True))

    def stamp(self, rank: int, at: float) -> float:
        """Return the time that a rank's lines show."""
        return self.clock(at, self.host(rank))

    @property
    def work(self) -> str:
        """The call that hangs, as the watchdog prints it."""
        return words.work(self.seq, self.op, self.numel, self.limit)

    def proof(
        self,
        *facts: tuple[int, str],
        among: Iterable[tuple[int, str]] = (),
        least: int = 0,
        read: Iterable[int] = (),
    ) -> None:
        """Add one way to know who did it."""
        self.proofs.append(Proof(frozenset(facts), frozenset(among), least, frozenset(read)))


# How jobs begin and go on -------------------------------------------------------------------


def begin(job: Job, ranks: Iterable[int] | None = None) -> float:
    """Print the start of the ranks; return when they are through."""
    draw, ranks = job.draw, list(ranks if ranks is not None else job.ranks)
    at, talk = job.start, job.voice.all_speak
    tells_size, tells_name = draw.random() < 0.4, draw.random() < 0.5
    for rank in ranks:
        if talk or rank == 0:
            came = at + draw.uniform(0, 3)
            if tells_name:
                job.own(
                    rank,
                    came,
                    f"{job.voice.module} 0.{draw.randrange(9)}.1 on torch {job.torch.version}",
                )
            if tells_size:
                job.own(rank, came + 0.1, f"rank {rank} of {job.size} up", "joined", "size")
            if draw.random() < 0.3:
                job.own(rank, came + 0.2, draw.choice(words.NOISE))
    return at + 6


def connect(
    job: Job, at: float, ranks: Iterable[int], *, complete: bool = True, asked: bool = False
) -> float:
    """Print what NCCL says of its first communicator, where the job asks for it."""
    draw = job.draw
    if not asked and (job.backend != "nccl" or draw.random() < 0.6):
        return at
    for rank in ranks:
        host, pid, local = job.name(job.host(rank)), job.pid(rank), job.local(rank)
        job.lib(
            rank,
            at + draw.uniform(0, 1),
            words.init_line(host, pid, rank, job.size, local, "START"),
            "nccl-start",
            "size",
            evident=True,
        )
        if complete:
            line = words.init_line(host, pid, rank, job.size, local, "COMPLETE")
            job.lib(rank, at + 2 + draw.uniform(0, 0.4), line, "nccl-complete", evident=True)
    return at + 3


def steps(job: Job, at: float, count: int, pace: float, growth: float = 1.0) -> float:
    """Let all ranks take steps together; return when the last one ended."""
    draw, voice = job.draw, job.voice
    first = job.step + 1
    for number in range(first, first + count):
        at += pace
        pace *= growth
        if (number - first) % voice.every:
            continue
        step = voice.step.format(
            s=number,
            m=first + 2 * count,
            e=1 + number // 1000,
            x=9 / (1 + number) ** 0.3,
            y=draw.uniform(1, 9),
            d=pace,
            t=draw.randrange(10_000, 90_000),
        )
        for rank in job.ranks if voice.all_speak else (0,):
            job.own(rank, at + draw.uniform(0, 0.05), step, "step")
        if draw.random() < 0.05:
            job.own(draw.randrange(job.size), at + 0.1, draw.choice(words.NOISE))
        if draw.random() < 0.1:  # all do the same, and all are through
            start, end, _ = draw.choice(words.PHASES)
            values = {"k": draw.randrange(2, 99), "d": draw.uniform(0.5, 4)}
            for rank in job.ranks if voice.all_speak else (0,):
                job.own(rank, at + 0.2, start.format(**values))
                job.own(rank, at + 0.2 + values["d"], end.format(**values))
            at += 5
    job.step = first + count - 1
    job.seq = 3 * (first + count) + draw.randrange(3)
    return at


def run_until_fault(job: Job) -> float:
    """Start, connect and take some steps."""
    at = connect(job, begin(job), job.ranks)
    return steps(job, at, job.draw.randrange(0, 30), job.draw.choice((0.4, 2.0, 7.0)))


# How jobs end ---------------------------------------------------------------------------------


@dataclass
class Ends:
    """When and how each rank ended of itself, and when it was ended."""

    own: dict[int, tuple[float, int]]  # time, exit code
    killed: dict[int, float]

    def until(self, rank: int) -> float:
        """Return the time until which a rank prints."""
        return min(self.own.get(rank, (NEVER, 0))[0], self.killed.get(rank, NEVER))

    def code(self, rank: int) -> int | None:
        """Return the exit code of a rank; None for one that still lives."""
        at, code = self.own.get(rank, (NEVER, 0))
        if at <= self.killed.get(rank, NEVER):
            return code if at < NEVER else None
        return -15


def ends_of(job: Job, own: dict[int, tuple[float, int]]) -> Ends:
    """Work out whom the launcher ends, and when."""
    draw = job.draw
    killed: dict[int, float] = {}
    if job.launcher in KILLS and own:
        first = min(at for at, _ in own.values())
        word = first + draw.choice((0.1, 1.0, 5.0))
        for host in range(job.hosts):
            here = [own[r][0] for r in job.ranks if job.host(r) == host and r in own]
            at = word + (draw.uniform(1, 30) if job.launcher == "torchrun" else 0.3)
            if job.launcher == "torchrun" and here:
                at = min(at, min(here) + draw.uniform(0.1, 5.0))
            for rank in job.ranks:
                if job.host(rank) == host:
                    killed[rank] = at
    return Ends(own, killed)


def print_ends(job: Job, ends: Ends) -> None:
    """Print what the launcher says of the ends."""
    codes = {rank: code for rank in job.ranks if (code := ends.code(rank)) is not None}
    if codes:
        last = max(min(ends.until(rank), 1e12) for rank in codes)
        {"torchrun": _torchrun, "srun": _srun, "srun-kill": _srun, "mpirun": _mpirun}.get(
            job.launcher, lambda *_: None
        )(job, ends, codes, last)


def _fact(code: int) -> str:
    return {-6: "abrt", -15: "term", -9: "kill", -11: "segv"}.get(code, "exit")


def _torchrun(job: Job, ends: Ends, codes: dict[int, int], _: float) -> None:
    """Each host's agent says whom it ended, and prints the table of those that failed."""
    every_row = job.draw.random() < 0.4
    for host in range(job.hosts):
        here = [rank for rank in codes if job.host(rank) == host]
        failed = [rank for rank in here if codes[rank] != -15]
        pid = 3900 + host
        for rank in here:
            at = job.clock(ends.until(rank), host)
            if rank not in failed:
                text = f"Sending process {job.pid(rank)} closing signal SIGTERM"
                job.launch(ends.until(rank), host, words.agent(at, "W", pid, text))
        if not failed:
            continue
        shown = sorted(here if every_row else failed, key=ends.until)
        root = shown[0]
        at = max(ends.until(rank) for rank in here) + 0.5
        text = (
            f"failed (exitcode: {codes[root]}) local_rank: {job.local(root)} (pid: "
            f"{job.pid(root)}) of binary: /opt/conda/bin/python"
        )
        job.launch(at, host, words.agent(job.clock(at, host), "E", pid, text))
        rows = [
            (
                job.clock(ends.until(rank), host),
                job.name(host),
                rank,
                job.local(rank),
                codes[rank],
                job.pid(rank),
            )
            for rank in shown
        ]
        facts = [(rank, _fact(codes[rank])) for rank in shown]
        job.launch(at + 0.1, host, words.table(f"{job.voice.module}.py", rows, 0), *facts)


def _srun(job: Job, ends: Ends, codes: dict[int, int], last: float) -> None:
    """Srun names the tasks of a host that ended in the same way together."""
    how = {-6: "Aborted (core dumped)", -9: "Killed", -11: "Segmentation fault", -15: "Terminated"}
    if -9 in codes.values():
        text = (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=8812.0. Some of the step tasks "
            "have been OOM Killed."
        )
        job.launch(last, 0, text)
    for host in range(job.hosts):
        for code in sorted(set(codes.values())):
            ranks = [rank for rank in codes if job.host(rank) == host and codes[rank] == code]
            if ranks:
                end = how.get(code, f"Exited with exit code {code}")
                at = max(ends.until(rank) for rank in ranks)
                job.launch(
                    at + 0.2,
                    host,
                    f"srun: error: {job.name(host)}: {words.tasks(ranks)}: {end}",
                    *((rank, _fact(code)) for rank in ranks),
                )
    if job.launcher == "srun-kill":
        at = min(ends.killed.values())
        text = f"slurmstepd: error: *** STEP 8812.0 ON {job.name(0)} CANCELLED AT "
        job.launch(at, 0, text + words.clock(at, "%Y-%m-%dT%H:%M:%S") + " ***")


def _mpirun(job: Job, ends: Ends, codes: dict[int, int], last: float) -> None:
    """Mpirun tells of the first that failed only."""
    first = min(codes, key=ends.until)
    code, host = codes[first], job.host(first)
    names = {-6: "6 (Aborted)", -9: "9 (Killed)", -11: "11 (Segmentation fault)"}
    bar = "-" * 74
    if code in names:
        text = (
            f"{bar}\nmpirun noticed that process rank {first} with PID 0 on node {job.name(host)} "
            f"exited on signal {names[code]}.\n{bar}"
        )
    else:
        text = (
            f"{bar}\nmpirun detected that one or more processes exited with non-zero status, thus "
            f"causing\nthe job to be terminated. The first process to do so was:\n\n"
            f"  Process name: [[4711,1],{first}]\n  Exit code:    {code}\n{bar}"
        )
    job.launch(last + 0.3, 0, text, (first, _fact(code)))


def give_up(
    job: Job,
    entered: dict[int, float],
    *,
    calls: dict[int, tuple[str, int]] | None = None,
    behind: Iterable[int] = (),
    ended: dict[int, tuple[float, int]] | None = None,
) -> Ends:
    """Let those that entered a call wait until the limit, and print all of it.

    ``calls`` is the operation and size of ranks that call something else; ``behind`` are ranks
    that live and are not in the call; ``ended`` are those that had ended before.
    """
    draw = job.draw
    fires = {rank: at + job.limit + draw.uniform(0.01, 0.9) for rank, at in entered.items()}
    delay = draw.choice((1.0, 10.0, 60.0)) if job.torch.number >= (2, 4) else 0.5
    code = 1 if job.backend == "gloo" else -6
    own = {rank: (at + delay + draw.uniform(0, 0.5), code) for rank, at in fires.items()}
    ends = ends_of(job, {**own, **(ended or {})})
    first = min(fires, key=lambda rank: fires[rank]) if fires else 0
    explains = job.torch.number >= (2, 5) and draw.random() < 0.6
    for rank in sorted(fires, key=lambda rank: fires[rank]):
        at = fires[rank]
        if at >= ends.until(rank):
            continue
        if job.backend == "gloo":
            _gloo_gives_up(job, rank, at, first)
        else:
            _nccl_gives_up(job, rank, at, delay, ends, (calls or {}).get(rank))
    if explains and job.backend == "nccl":
        for rank in behind:
            at = fires[first] + 1.1
            if at < ends.until(rank):
                group = job.torch.group(rank)
                lines = words.dump_signal(
                    job.torch, job.stamp(rank, at), rank, group, first, (job.seq - 1, job.seq - 1)
                )
                for line, facts in zip(lines, ((), ("lag",)), strict=True):
                    job.lib(rank, at, line, *facts)
    return ends


def _nccl_gives_up(
    job: Job, rank: int, at: float, delay: float, ends: Ends, call: tuple[str, int] | None
) -> None:
    op, numel = call or (job.op, job.numel)
    work = words.work(job.seq, op, numel, job.limit)
    ran, torch = job.limit + 0.02 + (at % 0.05), job.torch
    group, shown = torch.group(rank), job.stamp(rank, at)
    job.lib(rank, at, words.watchdog(torch, shown, rank, work, ran), "timeout", evident=True)
    if torch.number >= (2, 4):
        counts = (job.seq, job.seq + job.draw.randrange(3), job.seq - 1)
        job.lib(rank, at + 0.01, words.status(torch, shown, rank, group, counts), "counts")
    end = at + delay
    if end < ends.until(rank):
        for line in words.teardown(torch, job.stamp(rank, end), rank, group, work, ran):
            job.lib(rank, end, line)


def _gloo_gives_up(job: Job, rank: int, at: float, first: int) -> None:
    echo = rank != first and (rank + job.seed) % 2 == 0
    error = (
        f"[../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer "
        f"[{job.address(first)}]:{20_000 + 37 * first}"
        if echo
        else "[../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting "
        f"{job.limit * 1000}ms for recv operation to complete"
    )
    frames = (
        (f"/app/{job.voice.module}.py", "main", 210, "loop(cfg)"),
        (f"/app/{job.voice.module}.py", "loop", 131, "dist." + words.NAMES[job.op] + "(x)"),
        *words.in_collective(words.NAMES[job.op]),
    )
    text = words.traceback(job.torch, rank, frames, "RuntimeError", error)
    fact = "echo" if echo else "timeout"
    job.lib(rank, at + 0.4 * echo, text, fact, evident=job.torch.number >= (2, 3))
