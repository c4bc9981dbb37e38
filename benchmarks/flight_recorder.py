"""Compare whyhang with torch's own analyzer on the recorder dumps of a made-up job.

``python benchmarks/flight_recorder.py speed --ranks 256 1024 --entries 2000`` writes one folder
of dumps per size and runs both programs on it, each in a fresh process: wall time, peak memory,
guilty ranks found, innocent ranks named. Time is the best of ``--rounds`` that go in turn; the
memory of a program of several processes is sampled in a further run, which takes longer for
being sampled. ``... matrix`` does the same for every kind of fault in
a small job. torchfrtrace comes with torch; it executes what a pickle says, so run it on dumps you
made yourself only. It needs ``tabulate`` for some verdicts and crashes without it, and one thread
only, so on a busy machine compare the seconds of CPU.

The bars, at 256 and 1,024 ranks of 2,000 entries: a tenth of torchfrtrace's time and of its
memory; 10,240 ranks of 500 entries within 2 GB; every guilty rank found, no innocent one named.
``--repickled 4`` has Python read the dumps and pickle them again in that protocol before; then the
bar is a third of the time.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import fr_job
from cost import Cost, timed

TORCH = (sys.executable, "-m", "torch.distributed.flight_recorder.fr_trace")
WHYHANG = (sys.executable, "-m", "whyhang")
READER = (sys.executable, str(Path(__file__).resolve()), "read")
NAMED = re.compile(r"Culprit rank (\d+)|[Mm]issing ranks: \{([\d, ]*)\}")


@dataclass(frozen=True)
class Outcome:
    """What one program took, and whom it named; ``verdict`` is what it says in a word or two."""

    cost: Cost
    named: frozenset[int]
    verdict: str


def main(argv: Sequence[str] | None = None) -> int:
    """Run one of the comparisons; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Raw)
    parser.add_argument("what", choices=("speed", "matrix", "read"))
    parser.add_argument("folder", nargs="?", help="for read: dumps to read in this process")
    parser.add_argument("--ranks", type=int, nargs="*", default=[256, 1024])
    parser.add_argument("--entries", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--fault", choices=tuple(fr_job.FAULTS), default="missing-rank")
    parser.add_argument(
        "--repickled",
        type=int,
        choices=range(2, 6),
        metavar="PROTOCOL",
        help="for speed: pickle the dumps again, as Python does in this protocol (2 to 5)",
    )
    parser.add_argument(
        "--subgroups-only",
        action="store_true",
        help="for speed: no call over all ranks, so that dumps do not grow with the job",
    )
    parser.add_argument("--without-torch", action="store_true", help="leave torchfrtrace out")
    options = parser.parse_args(argv)
    if options.subgroups_only and options.fault == "left-loop":
        parser.error("--fault left-loop ends in a barrier over all ranks")
    if options.what == "read":
        return _read(options.folder)
    programs = {
        "whyhang": _run_whyhang,
        "reader only": _run_reader,
        **({} if options.without_torch else {"torchfrtrace": _run_torch}),
    }
    if options.what == "speed":
        return _speed(programs, options)
    return _matrix(programs, options.entries if options.entries < 1000 else 300)


class _Raw(argparse.RawDescriptionHelpFormatter):
    """Keep the lines of the description."""


def _speed(programs: dict[str, Callable[[Path], Outcome]], options: argparse.Namespace) -> int:
    missed = 0
    for ranks in options.ranks:
        tp, pp = (8, 4) if ranks >= 256 else (2, 2)
        guilty = [ranks // 3]
        over_all = not options.subgroups_only
        made = fr_job.make(options.fault, ranks, tp, pp, guilty, over_all=over_all)
        with _dumps(made, options.entries) as (folder, job):
            if options.repickled is not None:
                _repickle(folder, options.repickled)
            size = sum(path.stat().st_size for path in folder.iterdir()) / 1e6
            print(
                f"\n{ranks:,} ranks x {options.entries:,} entries, {size:,.0f} MB, "
                f"{_written_by(options.repickled)}, "
                f"{options.fault} {guilty}, best of {options.rounds}, "
                f"{len(os.sched_getaffinity(0))} processors"
            )
            rounds = [
                {name: run(folder) for name, run in programs.items()} for _ in range(options.rounds)
            ]
            outcomes = {
                name: min((one[name] for one in rounds), key=lambda outcome: outcome.cost.seconds)
                for name in programs
            }
            outcomes["whyhang"] = _with_memory(outcomes["whyhang"], folder)
        for name, outcome in outcomes.items():
            print(_row(name, outcome, job.guilty))
        missed += _missed(outcomes, job.guilty, times=10 if options.repickled is None else 3)
    return min(missed, 1)


def _repickle(folder: Path, protocol: int) -> None:
    """Let Python read dumps and pickle them again."""
    for path in folder.iterdir():
        path.write_bytes(pickle.dumps(pickle.loads(path.read_bytes()), protocol))


def _written_by(protocol: int | None) -> str:
    return "as torch pickles" if protocol is None else f"pickled again in protocol {protocol}"


def _missed(outcomes: dict[str, Outcome], guilty: frozenset[int], *, times: int) -> int:
    """Count the bars that were missed; ``times`` is how much faster than torchfrtrace."""
    ours = outcomes["whyhang"]
    bars = {
        "every guilty rank and no other": ours.named == guilty,
        "2 GB": ours.cost.megabytes < 2048,
    }
    if "torchfrtrace" in outcomes:
        mine, theirs = ours.cost, outcomes["torchfrtrace"].cost
        bars[f"{times} times faster"] = mine.seconds * times <= theirs.seconds
        bars["a tenth of the memory"] = mine.megabytes * 10 <= theirs.megabytes
        print(
            f"  {theirs.seconds / mine.seconds:.1f} times faster, "
            f"{theirs.cpu / mine.cpu:.1f} times less CPU, "
            f"{theirs.megabytes / mine.megabytes:.1f} times less memory"
        )
    for bar, kept in bars.items():
        if not kept:
            print(f"  MISSED: {bar}")
    return sum(not kept for kept in bars.values())


def _matrix(programs: dict[str, Callable[[Path], Outcome]], entries: int) -> int:
    missed = 0
    shapes = {"one": (32, 2, 4, [13]), "rank 0": (32, 2, 4, [0]), "two": (32, 2, 4, [12, 17])}
    print(f"{'fault':16} {'guilty':8} {'program':13} found  innocent  says")
    for fault in fr_job.FAULTS:
        for ranks, tp, pp, guilty in shapes.values():
            if fault in fr_job.BLAMELESS and guilty != [13]:
                continue
            with _dumps(fr_job.make(fault, ranks, tp, pp, guilty), entries) as (folder, job):
                outcomes = {name: run(folder) for name, run in programs.items()}
            shown = ",".join(map(str, sorted(job.guilty))) or "none"
            for name, outcome in outcomes.items():
                hits = len(outcome.named & job.guilty)
                innocent = sorted(outcome.named - job.guilty)
                print(
                    f"{fault:16} {shown:8} {name:13} {hits} of {len(job.guilty)} "
                    f"{len(innocent):4}      {outcome.verdict}"
                )
            missed += outcomes["whyhang"].named != job.guilty
    print(f"whyhang missed {missed}")
    return min(missed, 1)


class _dumps:  # noqa: N801 - reads as a function
    """A folder with the dumps of a job, gone afterwards."""

    def __init__(self, job: fr_job.Job, entries: int) -> None:
        self.job = job
        self.folder = Path(tempfile.mkdtemp(prefix="whyhang-fr-"))
        fr_job.write(self.job, self.folder, entries)

    def __enter__(self) -> tuple[Path, fr_job.Job]:
        return self.folder, self.job

    def __exit__(self, *exception: object) -> None:
        shutil.rmtree(self.folder)


def _row(name: str, outcome: Outcome, guilty: frozenset[int]) -> str:
    innocent = len(outcome.named - guilty)
    return (
        f"  {name:13} {outcome.cost.seconds:7.2f} s {outcome.cost.cpu:7.2f} s of CPU "
        f"{outcome.cost.megabytes:7.0f} MB   "
        f"found {len(outcome.named & guilty)} of {len(guilty)}, {innocent} innocent   "
        f"{outcome.verdict}"
    )


def _with_memory(outcome: Outcome, folder: Path) -> Outcome:
    """Put in the peak memory of all processes together, from a run in which it is sampled."""
    seen, _, _ = timed((*WHYHANG, str(folder), "--format", "json"), memory_every=0.01)
    return replace(outcome, cost=replace(outcome.cost, megabytes=seen.megabytes))


def _run_torch(folder: Path) -> Outcome:
    """Run torchfrtrace, telling it to go on where dumps are missing."""
    cost, out, err = timed((*TORCH, str(folder), "--allow-incomplete-ranks"))
    named: set[int] = set()
    for culprit, missing in NAMED.findall(out + err):
        named |= {int(rank) for rank in (culprit or missing).replace(" ", "").split(",") if rank}
    last = err.strip().splitlines()[-1:] if "Traceback" in err else []
    verdict = f"crashed: {last[0][:60]}" if last else f"{len((out + err).splitlines())} lines"
    return Outcome(cost, frozenset(named), verdict)


def _run_whyhang(folder: Path) -> Outcome:
    cost, out, err = timed((*WHYHANG, str(folder), "--format", "json"))
    try:
        report = json.loads(out)
    except json.JSONDecodeError:
        return Outcome(cost, frozenset(), f"crashed: {err[-80:]}")
    causes = [finding for finding in report["findings"] if finding.get("caused_by") is None]
    named = {rank for finding in causes for rank in finding["culprit_ranks"] or ()}
    categories = dict.fromkeys(finding["category"] for finding in causes)
    verdict = ", ".join(categories) or report["verdict"]
    return Outcome(cost, frozenset(named), verdict)


def _run_reader(folder: Path) -> Outcome:
    cost, out, err = timed((*READER, str(folder)))
    try:
        result = json.loads(out)
    except json.JSONDecodeError:
        return Outcome(cost, frozenset(), f"crashed: {err[-80:]}")
    return Outcome(cost, frozenset(result["culprits"]), result["verdicts"])


def _read(folder: str) -> int:
    """Read dumps and match their calls in this process, without anything else of whyhang."""
    from whyhang.analyzer.collectives import recorded_calls
    from whyhang.analyzer.facts import Track
    from whyhang.analyzer.reading import HEAD_BYTES, Document
    from whyhang.collectors.files import naming
    from whyhang.collectors.flight_recorder.reader import FlightRecorder

    reader = FlightRecorder()
    tracks: list[Track] = []
    for path in sorted(Path(folder).iterdir()):
        with path.open("rb") as stream:
            head = stream.read(HEAD_BYTES)
        document = Document(
            path=path.name,
            head=head,
            size=path.stat().st_size,
            open=lambda path=path: path.open("rb"),
            who=naming.from_path(path.name),
        )
        if reader.sniff(document):
            tracks += [fact for fact in reader.read(document) if isinstance(fact, Track)]
    report = recorded_calls(tracks)
    causes = [finding for finding in report.findings if finding.cause]
    print(
        json.dumps(
            {
                "culprits": sorted({rank for finding in causes for rank in finding.culprits}),
                "verdicts": ", ".join(dict.fromkeys(f.verdict.name for f in causes)),
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
