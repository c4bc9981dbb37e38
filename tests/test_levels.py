"""The rule by which findings explain each other: the deeper level explains the shallower."""

from __future__ import annotations

import pytest

from whyhang import signatures
from whyhang.analyzer.facts import replace
from whyhang.analyzer.findings.levels import Candidate, causes_above, root_order
from whyhang.analyzer.findings.signature import (
    LEVELS,
    WORTH,
    Confidence,
    Hit,
    Kind,
    Level,
    Signature,
)
from whyhang.analyzer.findings.signature_toml import LEVEL_OF, signature_of
from whyhang.analyzer.report import Evidence

CARD = {
    "id": "a",
    "category": "rank-died",
    "role": "cause",
    "title": "A",
    "explanation": "A.",
    "patterns": ["acmefs"],
}


def finding(
    level: Level,
    ranks: tuple[int, ...] = (),
    *,
    confidence: Confidence = "likely",
    waiting: tuple[int, ...] = (),
    line: int = 0,
    at: float | None = None,
    explains: tuple[str, ...] = (),
) -> Candidate:
    """Build a finding; its id says its level and ranks."""
    name = f"{level}-{'-'.join(map(str, ranks))}-{confidence}"
    signature = Signature(
        id=name, category="rank-died", kind=Kind.CAUSE, level=level, title="", means="",
        when=lambda _case: (), confidence=confidence, explains=explains,
    )  # fmt: skip
    evidence = (Evidence(source="job.log", line=line, quote=""),) if line else ()
    hit = Hit(members=ranks, affected=waiting, evidence=evidence, at=at)
    return Candidate(signature=signature, hit=hit)


def roots(*findings: Candidate) -> list[str]:
    """Name the findings that nothing explains."""
    ordered = sorted(findings, key=root_order)
    above = causes_above(ordered, [])
    return [c.signature.id for c, cause in zip(ordered, above, strict=True) if cause is None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(finding("kill", (4,)), finding("wait", (4,)), id="same rank"),
        pytest.param(
            finding("program", (4,), confidence="possible"),
            finding("wait", (4,), confidence="certain", waiting=(0, 1)),
            id="less sure, but deeper",
        ),
        pytest.param(
            finding("program", (4,)), finding("program", (4,), confidence="certain", waiting=(0,)),
            id="how it ended, beside that it is gone",
        ),
        pytest.param(finding("machine"), finding("program", (4,)), id="one names nobody"),
        pytest.param(
            finding("program", (4,), waiting=(0, 1)), finding("peer", (1,)), id="one waits for it"
        ),
        pytest.param(finding("kill", (4,)), finding("peer", (1,)), id="nobody knows who waits"),
        pytest.param(
            finding("wait", (4,), confidence="strong"), finding("wait"), id="surer in one level"
        ),
        pytest.param(finding("wait", (4,)), finding("wait"), id="named in one level"),
        pytest.param(
            finding("program", (2,), line=10), finding("program", (0,), line=50),
            id="earlier on another rank",
        ),
        pytest.param(
            finding("program", (2,), at=3.0), finding("program", (0,), at=5.0, line=1),
            id="earlier by time",
        ),
        pytest.param(
            finding("wait", (2,), explains=("program-2-likely",)), finding("program", (2,)),
            id="named in explains",
        ),
    ],
)  # fmt: skip
def test_the_first_explains_the_second(first: Candidate, second: Candidate) -> None:
    """There is one root, in whichever order the findings come."""
    assert roots(first, second) == roots(second, first) == [first.signature.id]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(
            finding("wait", (4,), confidence="strong"),
            finding("machine", confidence="hint"),
            id="a mere possibility explains nothing and comes last",
        ),
        pytest.param(
            finding("wait", (4,), waiting=(0, 1)),
            finding("wait", (5,), waiting=(0, 1), confidence="possible"),
            id="two late ranks",
        ),
        pytest.param(
            finding("setup", (1,), line=1),
            finding("setup", (2,), line=2),
            id="settings are no events",
        ),
    ],
)
def test_neither_explains_the_other(first: Candidate, second: Candidate) -> None:
    """Both stay roots, the better one first."""
    assert roots(first, second) == [first.signature.id, second.signature.id]


def test_there_is_always_a_root() -> None:
    """Findings that would explain each other in a circle leave the first of them."""
    a = finding("wait", (1,), confidence="strong", line=30)
    b = finding("wait", (1, 2), line=10)
    c = finding("wait", (3,), line=20)

    assert roots(a, b, c) == [a.signature.id]


def test_few_signatures_explain_another_against_the_rule() -> None:
    """An explicit ``explains`` is the exception, or nobody could say what leads."""
    edges = [(s.id, name) for s in signatures.load() for name in s.explains]

    assert len(edges) < 40


def test_signatures_use_the_five_words() -> None:
    """Whoever writes a number has measured what no word says."""
    assert {s.id for s in signatures.load() if s.confidence not in WORTH} == set()
    assert {s.id for s in signatures.load() if s.level not in LEVELS} == set()


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({}, "program"),
        ({"category": "gpu-hardware-xid"}, "machine"),
        ({"role": "consequence"}, "peer"),
        ({"gives_way": True}, "summary"),
        ({"level": "kill", "gives_way": True}, "kill"),
    ],
)
def test_a_card_without_a_level_has_that_of_its_category(
    more: dict[str, object], level: Level
) -> None:
    """Cards from before there were levels keep their place."""
    assert signature_of({**CARD, **more}).level == level
    assert set(LEVEL_OF.values()) <= set(LEVELS)


def test_a_card_may_say_outranks_and_a_number() -> None:
    """What older cards say means what it meant."""
    signature = signature_of({**CARD, "outranks": ["b"], "explains": ["c"], "confidence": 0.7})

    assert signature.explains == ("c", "b")
    assert signature.worth == 0.7


def test_a_failure_to_start_again_follows_from_what_ended_the_attempt_before() -> None:
    """After a restart ports are taken and ranks are missing, which is deeper but no cause."""
    crash = finding("program", (2,), line=10)
    start = finding("setup", line=50)
    again = Candidate(
        signature=replace(start.signature, category="init-port-in-use"), hit=start.hit
    )

    assert causes_above([again, crash], [("job.log", 30)]) == [crash, None]
    assert causes_above([again, crash], []) == [None, again]


def test_a_guess_does_not_stand_above_what_is_likely() -> None:
    """A deeper finding that is hardly possible neither explains nor leads; a possible one does."""
    error = finding("program", (1,), confidence="likely")
    possible = finding("machine", confidence="possible")
    guess = replace(possible, hit=replace(possible.hit, strength=0.8))

    assert roots(guess, error) == [error.signature.id, guess.signature.id]
    assert roots(possible, error) == [possible.signature.id]
