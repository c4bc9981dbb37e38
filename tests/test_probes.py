"""What all probes have in common: they say what they do, and hold nobody up."""

from __future__ import annotations

import re
import threading
import time
from pathlib import Path

import pytest
import tomli
from live_sites import site_of, snapshot

from whyhang.analyzer.facts import Excerpt, Gap
from whyhang.collectors.live import probes
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.probes import PROBES
from whyhang.collectors.live.probes.probe import Collected, Options, Probe, Running, Site
from whyhang.collectors.live.proc import Proc

WORDS = tomli.loads(Path(probes.__file__).parents[1].joinpath("words.toml").read_text())
EXCERPT = Excerpt(file="t.py", first_line=1, lines=("x",))


def running(probe: Probe) -> Running:
    """Start a probe at an empty job."""
    return Running(probe, site_of(Host(Proc())))


def probe(work: object, limit: float = 0.2) -> Probe:
    """Make a probe that does some work."""

    def collect(site: Site, collected: Collected) -> None:
        collected.facts.append(EXCERPT)
        work()  # type: ignore[operator]

    return Probe(name="a test", limit=limit, collect=collect)


def test_every_probe_is_listed_and_says_what_it_does() -> None:
    """A file that makes one and is not in the list would never be run."""
    folder = Path(probes.__file__).parent
    made = [path.stem for path in folder.glob("*.py") if "\nPROBE = " in path.read_text()]
    assert len(made) == len(PROBES) == len({each.name for each in PROBES})
    for each in PROBES:
        assert 0 < each.limit <= 60


@pytest.mark.parametrize("each", PROBES, ids=lambda each: each.name)
def test_a_probe_brings_facts_that_a_bundle_has_a_place_for(each: Probe) -> None:
    """Here there is little to find."""
    collected = running(each).finish(time.monotonic())

    kinds = {type(fact).__name__ for fact in collected.facts}
    assert kinds <= {"Excerpt", "Gap", "NearLimit", "StoreView", "FileView"}
    assert "Gap" not in kinds or "gaps.json" in each.writes


def test_all_that_is_said_of_what_was_not_had_stands_in_the_table() -> None:
    """No code asks for words that are not there, and none are there that nobody says."""
    sources = [path.read_text() for path in Path(probes.__file__).parents[1].rglob("*.py")]
    said = {name for text in sources for name in re.findall(r'\bgap\(\s*"([\w-]+)"', text)}
    said |= {name for text in sources for name in re.findall(r'_gap\("([\w-]+)"', text)}
    said |= {name for text in sources for name in re.findall(r'"(stacks-[\w-]+)"', text)}
    said |= {f"store-{how}" for how in ("elsewhere", "closed", "failed", "slow", "old")}
    assert said == WORDS["gaps"].keys()
    for name in WORDS["refusals"]:
        assert any(f'"{name}"' in text for text in sources), name


def test_a_probe_that_is_late_is_a_gap_and_what_it_has_counts() -> None:
    """It is waited for no longer than it says."""
    stop = threading.Event()
    late = running(probe(stop.wait))
    began = time.monotonic()
    answer = late.finish(began)
    took = time.monotonic() - began
    stop.set()

    assert took < 1.0
    assert answer.facts[0] == EXCERPT
    assert isinstance(answer.facts[1], Gap)
    assert str(answer.facts[1]).startswith(
        "a test: it did not come back within 0.2 s of the last look"
    )


def test_a_mistake_in_a_probe_is_not_hidden() -> None:
    """It is raised where its result is waited for."""

    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        running(probe(fail)).finish(time.monotonic())


def test_probes_follow_the_snapshots() -> None:
    """They may wait for each to begin, and for the last one to be over."""
    host = Host(Proc())
    site = Site(host, HostJob(members=()), "h", Options(looks=3))
    site.snapshots.append(snapshot(host))
    seen: list[object] = []

    def follow(site: Site, collected: Collected) -> None:
        del collected
        seen.extend(site.wait_for(number) for number in range(4))
        site.wait_for_last()
        seen.append("over")

    one = Running(Probe(name="", limit=1.0, collect=follow), site)
    for number in (1, 2, 3):
        until = time.monotonic() + 5
        while len(seen) < number and time.monotonic() < until:
            time.sleep(0.01)
        time.sleep(0.05)
        assert seen == [True] * number
        if number < 3:
            site.snapshots.append(snapshot(host, number))
        site.wake(over=number == 3)
    one.finish(time.monotonic())

    assert seen == [True, True, True, False, "over"]
