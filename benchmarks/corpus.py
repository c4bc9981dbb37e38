"""Score whyhang on a folder of cases whose truth is known.

Run with: ``python benchmarks/corpus.py DIR [CASE...]``

Each folder in DIR that holds a ``case.json`` is a case, all other files in it are evidence.
They are copied to a folder with a neutral name first, since the names of cases give the
answer away. Only the first finding of a report counts, except that no finding at all may
name an innocent rank with confidence 0.5 or more. A case of a healthy job is right if the
verdict is "healthy" or there is no finding.

``case.json``: ``truth.category``, ``truth.also_acceptable`` (further right categories),
``truth.culprit_ranks`` (null where naming one would be a guess; where the job may be healthy,
whoever is named then is an innocent), ``truth.derivable_culprits`` (false where no careful reader
could name them from the text alone: nobody is right there, too).
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SURE = 0.5  # from this confidence on, a finding names its culprits
LIMIT = 120.0  # seconds for one case
UNKNOWN = "unknown-insufficient-evidence"  # a truth that stands for "unknown"


@dataclass(frozen=True)
class Case:
    """One case with its truth."""

    name: str
    folder: Path
    categories: frozenset[str]
    culprits: frozenset[int] | None
    derivable: bool = True

    @classmethod
    def read(cls, path: Path) -> Case:
        """Read ``case.json``."""
        truth = json.loads(path.read_text())["truth"]
        names = [truth["category"], *(truth.get("also_acceptable") or ())]
        culprits = truth.get("culprit_ranks")
        return cls(
            name=path.parent.name,
            folder=path.parent,
            categories=frozenset("unknown" if name == UNKNOWN else name for name in names),
            culprits=None if culprits is None else frozenset(culprits),
            derivable=truth.get("derivable_culprits") is not False,
        )


@dataclass(frozen=True)
class Score:
    """How one case went. ``culprits`` is None where the truth names none."""

    case: Case
    answer: str
    category: bool
    culprits: bool | None
    named: frozenset[int]
    innocent: frozenset[int]
    seconds: float
    headline: str


def main() -> int:
    """Score all cases, print a line for each and the totals."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="folder of cases")
    parser.add_argument("case", nargs="*", help="only cases whose name contains one of these")
    parser.add_argument("-v", "--verbose", action="store_true", help="print headlines, too")
    args = parser.parse_args()
    cases = [Case.read(path) for path in sorted(args.folder.glob("*/case.json"))]
    if args.case:
        cases = [case for case in cases if any(part in case.name for part in args.case)]
    if not cases:
        print(f"no cases in {args.folder}")
        return 2
    scores = []
    print(f"{'case':44} {'truth':30} {'said':30} category culprits innocent     s")
    for case in cases:
        scores.append(score(case))
        print(line(scores[-1]))
        if args.verbose:
            print(f"     {scores[-1].headline}")
    print(totals(scores))
    return 0


def score(case: Case) -> Score:
    """Run whyhang on a case and hold its report against the truth."""
    with evidence_of(case) as evidence:
        begun = time.perf_counter()
        report = run(evidence)
        seconds = time.perf_counter() - begun
    findings = report["findings"]
    first = findings[0] if findings else None
    answer = first["category"] if first else "healthy" if report["verdict"] == "healthy" else "-"
    right = answer in case.categories or (
        "healthy" in case.categories and (not findings or report["verdict"] == "healthy")
    )
    if "unknown" in case.categories and not findings:
        right = True
    named = frozenset(first["culprit_ranks"] or ()) if first else frozenset()
    accused = frozenset(
        rank
        for finding in findings
        if finding["confidence"] >= SURE and finding.get("caused_by") is None
        for rank in finding["culprit_ranks"] or ()
    )
    guilty = case.culprits
    if guilty is None and "healthy" in case.categories:
        guilty = frozenset()  # nobody is to blame where nothing is wrong
    return Score(
        case=case,
        answer=answer,
        category=right,
        culprits=None if not guilty else named == guilty,
        named=named,
        innocent=frozenset() if guilty is None else accused - guilty,
        seconds=seconds,
        headline=report["headline"],
    )


@contextlib.contextmanager
def evidence_of(case: Case) -> Iterator[Path]:
    """Copy the evidence of a case to a temporary folder with a neutral name, without the truth."""
    with tempfile.TemporaryDirectory(prefix="job-") as scratch:
        evidence = Path(scratch) / "evidence"
        shutil.copytree(case.folder, evidence, ignore=shutil.ignore_patterns("case.json"))
        yield evidence


def run(evidence: Path) -> dict[str, Any]:
    """Run whyhang as its own process, as a person would."""
    command = [sys.executable, "-m", "whyhang", str(evidence), "--format", "json"]
    try:
        done = subprocess.run(command, capture_output=True, timeout=LIMIT, check=False)
        report: dict[str, Any] = json.loads(done.stdout)
    except (subprocess.TimeoutExpired, json.JSONDecodeError) as error:
        return {"findings": [], "verdict": "crashed", "headline": f"no report: {error}"}
    return report


def line(score: Score) -> str:
    """Print one case."""
    truth = min(score.case.categories, key=lambda name: (name == "unknown", name))
    culprits = "" if score.culprits is None else mark(good=score.culprits)
    if score.culprits is False:
        culprits += f" {sorted(score.named)} not {sorted(score.case.culprits or ())}"
    innocent = str(sorted(score.innocent)) if score.innocent else ""
    return (
        f"{score.case.name[:44]:44} {truth[:30]:30} {score.answer[:30]:30} "
        f"{mark(good=score.category):8} {culprits:8} {innocent:8} {score.seconds:5.1f}"
    )


def mark(*, good: bool) -> str:
    """Print right and wrong so that the eye finds the wrong ones."""
    return "yes" if good else "NO"


def totals(scores: list[Score]) -> str:
    """Sum up all cases."""
    right = sum(score.category for score in scores)
    with_culprits = [score for score in scores if score.culprits is not None]
    named_right = sum(bool(score.culprits) for score in with_culprits)
    derivable = [score for score in with_culprits if score.case.derivable]
    known_right = sum(bool(score.culprits) for score in derivable)
    innocent = [score for score in scores if score.innocent]
    wrong = Counter(
        f"{min(score.case.categories)} called {score.answer}"
        for score in scores
        if not score.category
    )
    lines = [
        "",
        f"category right   {right:3} of {len(scores):3}  {100 * right / len(scores):.0f} %",
        f"culprits right   {named_right:3} of {len(with_culprits):3}"
        + (f"  {100 * named_right / len(with_culprits):.0f} %" if with_culprits else ""),
        f"  told by the text {known_right:3} of {len(derivable):3}"
        + (f"  {100 * known_right / len(derivable):.0f} %" if derivable else ""),
        f"innocent named   {len(innocent):3}",
        *(f"  {count}: {what}" for what, count in wrong.most_common()),
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
