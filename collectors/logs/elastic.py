"""torchrun's agent in its log: what it was told, whether the nodes have met, its restarts.

With INFO (``LOGLEVEL=INFO``) an agent prints its settings, "Rendezvous'ing worker group" when it
begins to wait for the other nodes and "Rendezvous complete for workers" when all are there
(torch 1.9 to 2.15, ``launcher/api.py``, ``elastic/agent/server/api.py``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whyhang.analyzer.facts import Agent, Fact, Who, replace
from whyhang.collectors.logs.found import FileView, Found, Handler

if TYPE_CHECKING:
    import regex

SETTINGS = r"Starting elastic_operator with launch configs"
MEETS = r"\] Rendezvous'ing worker group"
MET = r"\] Rendezvous complete for workers\. Result"
RESTARTS = r"\] Worker group \w+\. (?P<left>\d+)/(?P<most>\d+) attempts left; will restart"
ENDED = r"Rendezvous(?:Timeout|Closed|Connection|State)Error|SignalException|ChildFailedError"
MAX_AGENTS = 10_000
_LINES = 24  # of the settings


class ElasticReader:
    """Collects one agent per process that speaks."""

    def __init__(self, file: FileView) -> None:
        self._file = file
        self._agents: dict[tuple[str | None, int | None], Agent] = {}

    def watches(self) -> dict[str, Handler]:
        """Give the patterns to look for, and what to call with each line found."""
        return {
            SETTINGS: self.on_settings,
            MEETS: self.on_meets,
            MET: self.on_met,
            RESTARTS: self.on_restarts,
            ENDED: self.on_ended,
        }

    def on_settings(self, found: Found, match: regex.Match[str]) -> None:
        """Read the settings, a line each behind this one."""
        del match
        told: dict[str, str] = {}
        for _, line in found.following(_LINES):
            name, colon, value = line.text.rpartition("] ")[2].partition(":")
            if not colon:
                break
            told[name.strip()] = value.strip()
        self._keep(
            found,
            backend=told.get("rdzv_backend"),
            min_nodes=_whole(told.get("min_nodes")),
            max_nodes=_whole(told.get("max_nodes")),
            per_node=_whole(told.get("nproc_per_node")),
            node_rank=_node_rank(told),
            endpoint=told.get("rdzv_endpoint"),
            run_id=told.get("run_id"),
        )

    def on_meets(self, found: Found, match: regex.Match[str]) -> None:
        """Note that it waits for other nodes from here on."""
        del match
        self._keep(found, meeting=True, quote=found.text, source=found.source)

    def on_met(self, found: Found, match: regex.Match[str]) -> None:
        """Note that all nodes were there."""
        del match
        self._keep(found, meeting=False)

    def on_restarts(self, found: Found, match: regex.Match[str]) -> None:
        """Note how often it has started its ranks anew."""
        self._keep(found, restarts=int(match["most"]) - int(match["left"]))

    def on_ended(self, found: Found, match: regex.Match[str]) -> None:
        """Note that nobody of this file waits any more."""
        del found, match
        for key, agent in self._agents.items():
            self._agents[key] = replace(agent, meeting=False)

    def _keep(self, found: Found, **changes: object) -> None:
        key = (found.who.host, found.who.pid)
        agent = self._agents.get(key)
        if agent is None:
            if len(self._agents) >= MAX_AGENTS:
                return
            who = Who(host=found.who.host, pid=found.who.pid)
            agent = Agent(who=who, source=found.source, quote=found.text)
        self._agents[key] = replace(agent, **changes)

    def facts(self) -> Iterator[Fact]:
        """Give each agent with where it stands at the end of the log."""
        yield from self._agents.values()


def _whole(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def _node_rank(told: dict[str, str]) -> int | None:
    """Read the node's number out of a static rendezvous's settings: {'rank': 1, 'timeout': 900}."""
    _, found, rest = told.get("rdzv_configs", "").partition("'rank': ")
    digits = rest.partition(",")[0].rstrip("} ")
    return int(digits) if found and digits.isdecimal() else None
