"""No step asks for what whyhang has done, and those on many hosts get the time that they need."""

from __future__ import annotations

from small_jobs import ALL_REDUCE, INIT, case_of, dump, process, report_of

from whyhang.analyzer.facts import Fact, Trust, Who, replace
from whyhang.analyzer.findings.steps import more_looks, not_yet

STEP = "whyhang 7 --looks 6 --interval 5  # does it move?"


def job(looks: int, seconds: float, *, hosts: int = 1, tool: str = "py-spy") -> list[Fact]:
    facts: list[Fact] = []
    for rank, text in enumerate((ALL_REDUCE, INIT, INIT)):
        who = Who(rank=rank, pid=7, trust=Trust.ENVIRONMENT, host=f"n{rank % hosts}")
        who = replace(who, pid=7 + rank)
        for look in range(looks):
            known = process(rank, look=look, environ={"WORLD_SIZE": "3"})
            facts.append(replace(known, who=who, taken_at=1000.0 + look * seconds))
            facts.append(replace(dump(rank, text, look=look, pid=7 + rank), who=who, tool=tool))
    return facts


def test_a_longer_look_is_asked_for_after_a_short_one() -> None:
    """Two looks a second apart are few; six in two seconds are no long look either."""
    assert not_yet(case_of(job(2, 1.0)), [STEP]) == [STEP]
    assert not_yet(case_of(job(6, 0.4)), [STEP]) == [STEP]
    assert more_looks(case_of(job(2, 1.0))) == "--looks 6 --interval 5"


def test_what_was_done_is_not_asked_for_again() -> None:
    """As many looks, as far apart; C frames of all."""
    assert not_yet(case_of(job(6, 5.0)), [STEP, "dmesg"]) == ["dmesg"]
    assert more_looks(case_of(job(6, 5.0))) == ""
    native = case_of(job(2, 1.0, tool="py-spy-native"))
    assert not_yet(native, ["whyhang PID --native always"]) == []


def test_a_long_look_at_many_hosts_is_given_its_time() -> None:
    """Their usual limit would cut it off."""
    (step,) = not_yet(case_of(job(2, 1.0, hosts=3)), [STEP])
    assert step == "whyhang 7 --looks 6 --interval 5 --timeout 60  # does it move?"


def test_what_would_tell_is_what_was_not_taken() -> None:
    """Nothing is found: more looks and C frames are named where they were not taken."""
    (few,) = [gap for gap in report_of(job(2, 1.0)).gaps if gap.startswith("What would tell")]
    assert "more looks (--looks 6 --interval 5), C frames" in few
    (many,) = [
        gap
        for gap in report_of(job(6, 5.0, tool="py-spy-native")).gaps
        if gap.startswith("What would tell")
    ]
    assert "looks" not in many
    assert "--native" not in many
