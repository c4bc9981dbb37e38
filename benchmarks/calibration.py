"""Measure what each word of confidence is worth: how often a leading finding that has it is right.

Run with: ``python benchmarks/calibration.py [CORPUS]``

The reports are those of all samples' bundles (the truth is ``expect`` in ``sample.toml``) and of
the cases in CORPUS (``truth`` in ``case.json``, see ``corpus.py``). Only the first finding of a
report counts, under the word whose number is nearest to its confidence. Culprits count where it
names some and the truth says who they are; they are right if they are exactly those.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import corpus

from whyhang.analyzer.signature import WORTH
from whyhang.samples.harness import scenario


@dataclass(frozen=True)
class Leading:
    """The first finding of a report, held against the truth.

    ``culprits`` is None where it names nobody or the truth is silent.
    """

    confidence: float
    category: bool
    culprits: bool | None

    @property
    def word(self) -> str:
        """Return the word whose number is nearest."""
        return min(WORTH, key=lambda word: abs(WORTH[word] - self.confidence))


def main() -> int:
    """Print the table for the samples, and for the corpus if one is named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("corpus", type=Path, nargs="?", help="folder of cases with known truth")
    args = parser.parse_args()
    sources = {"samples": list(of_samples())}
    if args.corpus is not None:
        sources["corpus"] = list(of_corpus(args.corpus))
        sources["both"] = [*sources["samples"], *sources["corpus"]]
    for name, findings in sources.items():
        print(f"\n{name}: {len(findings)} leading findings\n")
        print(table(findings))
    return 0


def of_samples() -> Iterator[Leading]:
    """Yield the leading finding of each sample's bundle."""
    for sample in scenario.samples().values():
        if sample.bundle.is_file():
            expect = sample.expect
            categories = frozenset({expect.category, *expect.also})
            ranks = None if expect.culprit_ranks is None else frozenset(expect.culprit_ranks)
            yield from leading(sample.bundle, categories, ranks)


def of_corpus(folder: Path) -> Iterator[Leading]:
    """Yield the leading finding of each case."""
    for path in sorted(folder.glob("*/case.json")):
        case = corpus.Case.read(path)
        with corpus.evidence_of(case) as evidence:
            yield from leading(evidence, case.categories, case.culprits)


def leading(
    evidence: Path, categories: frozenset[str], culprits: frozenset[int] | None
) -> Iterator[Leading]:
    """Yield the first finding of a report, if it has any."""
    for first in corpus.run(evidence)["findings"][:1]:
        named = frozenset(first["culprit_ranks"] or ())
        yield Leading(
            confidence=first["confidence"],
            category=first["category"] in categories,
            culprits=None if culprits is None or not named else named == culprits,
        )


def table(findings: list[Leading]) -> str:
    """Format the measured shares as a table in Markdown."""
    lines = [
        "| word | number | findings | category right | culprits right |",
        "| --- | --- | --- | --- | --- |",
    ]
    for word, number in WORTH.items():
        having = [finding for finding in findings if finding.word == word]
        categories = share([finding.category for finding in having])
        culprits = share([f.culprits for f in having if f.culprits is not None])
        lines.append(f"| {word} | {number} | {len(having)} | {categories} | {culprits} |")
    return "\n".join(lines)


def share(right: list[bool]) -> str:
    """Format how many of some are right: "9 of 10, 90 %"."""
    return f"{sum(right)} of {len(right)}, {sum(right) / len(right):.0%}" if right else "-"


if __name__ == "__main__":
    sys.exit(main())
