"""Count whom whyhang names on the logs of made-up jobs: the right ranks, or innocent ones.

    python benchmarks/log_jobs.py [--seeds 1000] [--first 0] [--kind KIND] [-v]
    python benchmarks/log_jobs.py --seed 17 [--keep FOLDER]

Each seed is a job of an invented program under one fault (``log_faults.py``), its logs laid out and
damaged as chance has it (``log_layout.py``). A rank is named by a finding of confidence 0.5 or
more that no other explains; the right ranks are those of the first finding. Bars: an innocent in
at most 1 % of jobs, the right ranks in 90 % of those where what is left tells who it was.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import log_faults
from log_layout import Left, leave

from whyhang.analyzer.align import align
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.commands.readers import readers_for
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.analyzer.report import Report
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.folder import read
from whyhang.collectors.files.meter import Meter
from whyhang.signatures.frames import TABLE

SURE = 0.5
MOST_INNOCENT, LEAST_RIGHT = 0.01, 0.9


@dataclass(frozen=True)
class Outcome:
    """What was said of one job. ``right`` is None where nobody can know who it was."""

    left: Left
    report: Report
    innocent: frozenset[int]
    right: bool | None
    category: bool


class Judge:
    """Runs whyhang on what is left of jobs, in this process."""

    def __init__(self) -> None:
        self.knowledge = known(())
        self.readers = readers_for(self.knowledge, Meter())

    def report(self, left: Left) -> Report:
        """Diagnose the files of a job."""
        with tempfile.TemporaryDirectory(prefix="job-") as scratch, Store() as store:
            write(left, Path(scratch))
            facts = [*read([scratch], readers=self.readers, store=store), *self.knowledge.gaps]
        return diagnose(align(identify(facts), TABLE), self.knowledge.signatures)

    def outcome(self, seed: int, kind: str | None = None) -> Outcome:
        """Make the job of a seed and hold the report against its truth."""
        left = leave(seed, kind)
        report = self.report(left)
        first = report.findings[0] if report.findings else None
        named = frozenset(first.culprit_ranks or ()) if first else frozenset()
        accused = frozenset(
            rank
            for finding in report.findings
            if finding.confidence >= SURE and finding.caused_by is None
            for rank in finding.culprit_ranks or ()
        )
        answer = first.category if first else "healthy" if report.verdict == "healthy" else "-"
        return Outcome(
            left=left,
            report=report,
            innocent=accused - left.job.guilty,
            right=named == left.job.guilty if left.knowable else None,
            category=answer in left.job.categories,
        )


def write(left: Left, folder: Path) -> None:
    """Write the files of a job."""
    for name, text in left.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the seeds, print a table by fault; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--kind", choices=tuple(log_faults.FAULTS))
    parser.add_argument("--seed", type=int, help="only this one, with its report")
    parser.add_argument("--keep", type=Path, help="where to write the logs of that one")
    parser.add_argument("-v", "--verbose", action="store_true", help="a line for each that is off")
    options = parser.parse_args(argv)
    judge = Judge()
    if options.seed is not None:
        outcome = judge.outcome(options.seed, options.kind)
        if options.keep:
            write(outcome.left, options.keep)
        print(_line(options.seed, outcome))
        for finding in outcome.report.findings:
            print(
                f"  {finding.confidence:.2f} {finding.signature} {finding.culprit_ranks} ", end=""
            )
            print(f"{'<- ' + str(finding.caused_by) if finding.caused_by is not None else ''}")
            print(f"       {finding.title}")
        return 0
    outcomes = {}
    for seed in range(options.first, options.first + options.seeds):
        outcome = outcomes[seed] = judge.outcome(seed, options.kind)
        if options.verbose and (outcome.innocent or outcome.right is False):
            print(_line(seed, outcome), flush=True)
    return _totals(list(outcomes.values()))


def _line(seed: int, outcome: Outcome) -> str:
    job, left = outcome.left.job, outcome.left
    first = outcome.report.findings[0] if outcome.report.findings else None
    return (
        f"{seed:5} {job.kind:9} {job.size:2}x{job.hosts} {job.launcher:9} {job.backend:4} "
        f"{job.torch.version:4} {left.layout:8} {left.damage:7} guilty {sorted(job.guilty)} "
        f"{'INNOCENT ' + str(sorted(outcome.innocent)) if outcome.innocent else ''} "
        f"{'' if outcome.right is None else 'right' if outcome.right else 'NOT RIGHT'} "
        f"{first.signature if first else outcome.report.verdict} "
        f"{first.culprit_ranks if first else ''}"
    )


def _totals(outcomes: Sequence[Outcome]) -> int:
    print(f"{'fault':10} {'jobs':>5} {'category':>14} {'can be known':>13} {'right':>14} innocent")
    rows = [*sorted({o.left.job.kind for o in outcomes}), "all"]
    for kind in rows:
        own = [o for o in outcomes if kind in (o.left.job.kind, "all")]
        known = [o.right for o in own if o.right is not None]
        category = sum(o.category for o in own)
        innocent = sum(bool(o.innocent) for o in own)
        print(
            f"{kind:10} {len(own):5} {_share(category, len(own)):>14} {len(known):13} "
            f"{_share(sum(known), len(known)):>14} {_share(innocent, len(own))}"
        )
    by_damage = Counter(o.left.damage for o in outcomes if o.innocent)
    print(f"innocents by damage: {dict(by_damage)}")
    right = [o.right for o in outcomes if o.right is not None]
    is_met = sum(bool(o.innocent) for o in outcomes) <= MOST_INNOCENT * len(outcomes) and sum(
        right
    ) >= LEAST_RIGHT * len(right)
    print(f"bars {'met' if is_met else 'MISSED'}")
    return 0 if is_met else 1


def _share(part: int, whole: int) -> str:
    return f"{part} ({100 * part / whole:.1f} %)" if whole else "-"


if __name__ == "__main__":
    sys.exit(main())
