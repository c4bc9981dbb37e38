"""Writes a made-up job into files, as launchers lay them out, and damages them by chance.

A reader knows whose a line is from the file's name, from a label in front of the line, or from
its words. What he has left to go on decides whether the truth can be known (``Left.knowable``).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from log_faults import make
from log_job import Job, Line

FILE_NAMES = (
    "rank{r}.log",
    "log_rank_{r:02d}.txt",
    "rank-{r}/stderr.log",
    "out.rank{r}",
    "train_rank{r}.err",
)
LABELS = {
    "torchrun": "[default{local}]:",
    "srun": "{rank:>{width}}: ",
    "srun-kill": "{rank:>{width}}: ",
    "mpirun": "[1,{rank}]<stderr>:",
    "pods": "[pod/train-worker-{rank}/pytorch] ",
}
GLUED = 0.15  # of single files have lines of two ranks on one
DAMAGES = ("none", "none", "none", "head", "tail", "missing")


@dataclass(frozen=True)
class Left:
    """What is left of a job: files by name, and whether they tell who did it."""

    job: Job
    layout: str
    damage: str
    files: dict[str, str]
    knowable: bool


def leave(seed: int, kind: str | None = None) -> Left:
    """Make the job of a seed and write what is left of it."""
    job = make(seed, kind)
    draw = random.Random(seed * 7 + 1)
    layout = _choose(job, draw)
    damage = draw.choice(DAMAGES if layout == "files" else DAMAGES[:-1])
    whose = _sort(job, layout, draw)
    if damage == "missing":
        whose = _lose_files(whose, draw)
    cut = {name: _cut(lines, damage, draw) for name, lines in whose.items()}
    files = {name: _text(job, lines, layout, draw) for name, lines in cut.items()}
    if damage == "tail":  # in the middle of a line
        broken = [name for name in files if len(cut[name]) < len(whose[name])]
        for name in broken:
            files[name] += whose[name][len(cut[name])].text[: draw.randrange(1, 12)]
    knowable = _is_knowable(job, cut, layout)
    if damage != "none" and "healthy" in job.categories:
        job.categories |= {"unknown", "-"}  # an end that was cut off is not seen
    return Left(job, layout, damage, files, knowable)


def _choose(job: Job, draw: random.Random) -> str:
    if job.hosts == 2 and job.launcher == "torchrun":
        return draw.choice(("hosts", "files"))
    if job.launcher == "torchrun":
        return draw.choice(("files", "label", "one", "torchrun"))
    return draw.choice(("files", "label", "label", "one"))


def _sort(job: Job, layout: str, draw: random.Random) -> dict[str, list[Line]]:
    """Put lines into files by rank or host; the launcher's into one of its own, or none."""
    if layout in {"label", "one"}:
        return {draw.choice(("job.log", "slurm-8812.out", "output.txt")): list(job.lines)}
    if layout == "hosts":
        names = [f"{job.name(host)}.log" for host in range(job.hosts)]
        return {name: [one for one in job.lines if one.host == h] for h, name in enumerate(names)}
    shape = "job_x1y2/attempt_0/{r}/stderr.log" if layout == "torchrun" else draw.choice(FILE_NAMES)
    files = {
        shape.format(r=rank): [one for one in job.lines if one.rank == rank]
        for rank in job.ranks
        if rank not in job.silent
    }
    if draw.random() < 0.7:
        files[draw.choice(("launcher.log", "slurm-8812.out"))] = [
            one for one in job.lines if one.rank is None
        ]
    return files


def _lose_files(files: dict[str, list[Line]], draw: random.Random) -> dict[str, list[Line]]:
    names = [name for name, lines in files.items() if lines and lines[0].rank is not None]
    lost = set(draw.sample(names, draw.randint(1, max(1, len(names) // 2))))
    return {name: lines for name, lines in files.items() if name not in lost}


def _cut(lines: list[Line], damage: str, draw: random.Random) -> list[Line]:
    """Take lines off the front or the end of a file, of some files."""
    if damage not in {"head", "tail"} or draw.random() < 0.4 or len(lines) < 2:
        return lines
    if damage == "head":
        return lines[draw.randrange(len(lines)) :]
    return lines[: draw.randrange(1, len(lines))]


def _text(job: Job, lines: Sequence[Line], layout: str, draw: random.Random) -> str:
    written = []
    for line in lines:
        label = ""
        if line.rank is not None and layout in {"label", "hosts"}:
            label = LABELS[job.launcher].format(
                rank=line.rank, local=job.local(line.rank), width=len(str(job.size - 1))
            )
        written += [f"{label}{row}" for row in line.text.split("\n")]
    if layout in {"label", "one"} and draw.random() < GLUED and len(written) > 4:
        for _ in range(2):
            at = draw.randrange(len(written) - 1)
            written[at : at + 2] = ["".join(written[at : at + 2])]
    return "".join(f"{row}\n" for row in written)


def _is_knowable(job: Job, files: dict[str, list[Line]], layout: str) -> bool:
    known: set[tuple[int, str]] = set()
    read: set[int] = set()
    for lines in files.values():
        for line in lines:
            whose = layout in {"files", "torchrun"} or (
                layout == "label" and not (job.launcher == "torchrun" and job.hosts > 1)
            )
            if whose or line.evident:
                known |= line.facts
                read |= {line.rank} if line.rank is not None else set()
    if layout not in {"files", "torchrun"} and len(read) > 1:  # of all ranks: others were silent
        sized = any(fact == "size" for _, fact in known)
        read |= set(job.ranks if sized else range(max(read)))
    return any(proof.holds(frozenset(known), frozenset(read)) for proof in job.proofs)
