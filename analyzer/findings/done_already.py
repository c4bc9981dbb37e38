"""What whyhang itself has done with a living job, so that no step asks for that once more."""

import re
from collections.abc import Iterable

from whyhang.analyzer.case import Case

LOOKS, INTERVAL = 6, 5
"""What is advised where few looks were taken."""
EASY = 20
"""Seconds of looks that many hosts are done with within their usual limit."""

_LOOKS = re.compile(r"--looks (?P<looks>\d+) --interval (?P<seconds>\d+)")


def looked_for(case: Case) -> float:
    """Return how many seconds lie between the first and the last look at the job."""
    processes = [process for member in case.job.members for process in member.processes]
    times = [process.taken_at for process in processes if process.taken_at is not None]
    return max(times) - min(times) if times else 0.0


def took_native_frames(case: Case) -> bool:
    """Return whether the C frames of every rank that was looked at are known."""
    dumps = [member.dumps for member in case.job.members if member.dumps]
    return bool(dumps) and all(any("native" in dump.tool for dump in own) for own in dumps)


def more_looks(case: Case) -> str:
    """Return the options of a longer look than was taken; empty where one was long enough."""
    if _looked(case, LOOKS, INTERVAL):
        return ""
    return with_limit(case, f"--looks {LOOKS} --interval {INTERVAL}")


def with_limit(case: Case, step: str) -> str:
    """Give looks that take long the time that they need, where many hosts are looked at."""
    match = _LOOKS.search(step)
    hosts = {member.host for member in case.job.members if member.host}
    if match is None or len(hosts) < 2 or "--timeout" in step:
        return step
    seconds = int(match["looks"]) * int(match["seconds"])
    if seconds <= EASY:
        return step
    return f"{step[: match.end()]} --timeout {2 * seconds}{step[match.end() :]}"


def not_yet(case: Case, steps: Iterable[str]) -> list[str]:
    """Leave out the steps that ask for as many looks as were taken, and give long ones time."""
    kept = []
    for step in steps:
        match = _LOOKS.search(step)
        looked = match is not None and _looked(case, int(match["looks"]), int(match["seconds"]))
        if not looked and not ("--native always" in step and took_native_frames(case)):
            kept.append(with_limit(case, step))
    return kept


def _looked(case: Case, looks: int, interval: int) -> bool:
    """Return whether so many looks, so many seconds apart, were taken."""
    return case.graph.snapshots >= looks and looked_for(case) >= (looks - 1) * interval
