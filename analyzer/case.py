"""The aligned job: what signatures ask their questions to."""

from collections import Counter
from collections.abc import Iterable

from whyhang.analyzer.facts import Agent, Record, ranks_in_words
from whyhang.analyzer.job.connections import Connections
from whyhang.analyzer.job.records import ANONYMOUS, Job, Member
from whyhang.analyzer.rank_state.from_logs.ends import End
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks import LineText
from whyhang.analyzer.wait_graph import WaitGraph


class Case(Record):
    """A job with its alignment: what signatures ask.

    ``ends`` is how each rank ended, as far as is known, by rank.
    ``agents`` are the launchers with a rendezvous of their own, as logs and processes tell,
    ``connections`` the TCP connections of the ranks by their ends. ``text`` gives the line of
    source at which a frame stands, where it was kept.
    """

    job: Job
    graph: WaitGraph
    states: tuple[RankState, ...]
    ends: dict[int, End]
    agents: tuple[Agent, ...]
    connections: Connections
    text: LineText

    def member(self, number: int) -> Member:
        """Return a member by its number."""
        return self.job.members[number]

    def ranks(self, members: Iterable[int]) -> tuple[int, ...]:
        """Return the rank numbers of members, leaving out those that are not known."""
        ranks = {self.job.members[number].rank for number in members}
        return tuple(sorted(rank for rank in ranks if rank is not None))

    def names(self, members: Iterable[int]) -> str:
        """Name members in words: "rank 2", "ranks 0-1,3", "pid 7 on node1"."""
        chosen = [self.job.members[number] for number in members]
        ranks = sorted({m.rank for m in chosen if m.rank is not None})
        others = [m.name for m in chosen if m.rank is None]
        copies = sum(m.copies for m in chosen if m.rank is None)
        if len(others) > 3 or copies > len(others):
            others = [
                f"{copies} processes ({', '.join(others[:2])}{', …' if len(others) > 2 else ''})"
            ]
        elif len(others) > len(set(others)) and all(
            name.startswith(ANONYMOUS) for name in others
        ):  # of whom no more is known than that they are there
            counts = Counter(others)
            others = [
                f"{n} processes{name.removeprefix(ANONYMOUS)}" if n > 1 else name
                for name, n in counts.items()
            ]
        label = [ranks_in_words(ranks)] if ranks else []
        return ", ".join(label + others)
