"""A job on a host as the probes see it, for probes that are tested by themselves."""

from __future__ import annotations

from collections.abc import Callable

from whyhang.analyzer.facts import InitArguments
from whyhang.collectors.live.job.host import Host
from whyhang.collectors.live.job.members import HostJob
from whyhang.collectors.live.probes.probe import Collected, Options, Site
from whyhang.collectors.live.snapshot import Snapshot


def snapshot(host: Host, number: int = 0) -> Snapshot:
    """Make a snapshot in which nothing has been taken yet."""
    return Snapshot(host, "n", number, {}, limit=5.0)


def site_of(
    host: Host,
    job: HostJob | None = None,
    *,
    hostname: str = "n",
    options: Options | None = None,
    spots: tuple[InitArguments, ...] = (),
) -> Site:
    """Make a site after one snapshot, which was the last."""
    options = options or Options(looks=1)
    site = Site(host, job or HostJob(members=()), hostname, options)
    site.snapshots.append(snapshot(host))
    site.spots = spots
    site.wake(over=True)
    return site


def collected(collect: Callable[[Site, Collected], None], site: Site) -> Collected:
    """Return what a probe brings."""
    evidence = Collected()
    collect(site, evidence)
    return evidence
