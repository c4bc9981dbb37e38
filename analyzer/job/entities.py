"""Whom a fact means: processes and ranks while facts are still being joined."""

from collections import defaultdict
from collections.abc import Iterable

from whyhang.analyzer.facts import Process, ProcessRank, Role, StackDump, Trust, Who, replace


class Entity:
    """One process or rank while facts are still being joined. Lives only inside ``identify``."""

    def __init__(self) -> None:
        self.rank: int | None = None
        self.trust = Trust.NONE
        self.host: str | None = None
        self.pid: int | None = None
        self.label: str | None = None
        self.local_rank: int | None = None
        self.role: Role | None = None
        self.ppid: int | None = None
        self.parent: Entity | None = None
        self.processes: list[Process] = []
        self.dumps: list[StackDump] = []
        self.spoken_of = False  # tracks, lines, exits: enough to be a rank

    def learn(self, who: Who) -> None:
        """Take over what a fact says, unless something more trusted said otherwise."""
        if who.rank is not None and (self.rank is None or who.trust > self.trust):
            self.rank, self.trust = who.rank, who.trust
        self.host = self.host or who.host
        self.pid = self.pid if self.pid is not None else who.pid
        self.label = self.label or who.label
        self.local_rank = self.local_rank if self.local_rank is not None else who.local_rank

    @property
    def copies(self) -> int:
        """How many processes it stands for at least: "slaves" is more than one."""
        several = self.label is not None and self.label.lower() in PLURALS
        return max([dump.copies for dump in self.dumps] + [2 if several else 1])


PLURALS = {"slaves", "workers", "others", "rest", "processes", "children"}


class Entities:
    """Finds the entity that a ``Who`` means, or makes one."""

    def __init__(self, pid_ranks: dict[tuple[str | None, int], Who]) -> None:
        self.all: list[Entity] = []
        self._by_pid: dict[tuple[str | None, int], Entity] = {}
        self._by_rank: dict[int, list[Entity]] = defaultdict(list)
        self._by_label: dict[tuple[str | None, str], Entity] = {}
        self._pids: dict[int, dict[int, Entity]] = defaultdict(dict)  # of equal pid, by identity
        self._pid_ranks = pid_ranks

    def entity(self, who: Who, *, alone: object = None) -> Entity:
        """Return the entity for ``who``; ``alone`` keys those of whom nothing at all is known."""
        who = self._with_claimed_rank(who)
        entity = self._find(who)
        if entity is None and who.rank is None and who.pid is None:
            key = (who.host, who.label or f"\0{alone}")
            entity = self._by_label.get(key)
            if entity is None:
                entity = self._by_label[key] = self._new()
        elif entity is None:
            entity = self._new()
        entity.learn(who)
        if entity.pid is not None:
            self._by_pid.setdefault((entity.host, entity.pid), entity)
            self._pids[entity.pid][id(entity)] = entity
        if entity.rank is not None and entity not in self._by_rank[entity.rank]:
            self._by_rank[entity.rank].append(entity)
        return entity

    def known(self, who: Who) -> Entity | None:
        """Return the entity with this pid, if there is one."""
        return self._find(Who(host=who.host, pid=who.pid)) if who.pid is not None else None

    def mention(self, who: Who) -> None:
        """Note that something was said of a rank; a bare pid makes no new member."""
        who = self._with_claimed_rank(who)
        if who.rank is not None or self._find(who) is not None:
            self.entity(who).spoken_of = True

    def place(self, facts: Iterable[ProcessRank]) -> None:
        """Note pid and host of the ranks that are known, where all that is said of one agrees."""
        by_rank: dict[int, list[Who]] = defaultdict(list)
        for fact in facts:
            by_rank[fact.rank].append(fact.who)
        for rank, places in by_rank.items():
            pids = {who.pid for who in places} - {None}
            hosts = {who.host for who in places} - {None}
            known = self._by_rank.get(rank, [])
            if max(len(pids), len(hosts)) != 1 or len(known) > 1:
                continue
            pid, host = next(iter(pids), None), next(iter(hosts), None)
            for entity in known:
                if entity.pid in {None, pid} and entity.host in {None, host}:
                    entity.learn(Who(pid=pid, host=host))

    def _with_claimed_rank(self, who: Who) -> Who:
        if who.pid is None:
            return who
        claimed = self._pid_ranks.get((who.host, who.pid)) or self._pid_ranks.get((None, who.pid))
        if claimed is None or (who.rank is not None and who.trust >= claimed.trust):
            return who
        return replace(who, rank=claimed.rank, trust=claimed.trust)

    def _new(self) -> Entity:
        entity = Entity()
        self.all.append(entity)
        return entity

    def _find(self, who: Who) -> Entity | None:
        if who.pid is not None:
            candidate = self._by_pid.get((who.host, who.pid))
            if candidate is None and who.host is None:
                same = self._pids[who.pid]
                candidate = next(iter(same.values())) if len(same) == 1 else None
            elif candidate is None:
                candidate = self._by_pid.get((None, who.pid))
            # Pids repeat over hosts; of two ranks of one process the more trusted will win.
            if candidate is not None and (
                len({candidate.rank, who.rank} - {None}) < 2 or who.trust != candidate.trust
            ):
                return candidate
        if who.rank is not None:
            for entity in self._by_rank.get(who.rank, ()):
                if who.pid is None or entity.pid is None:
                    return entity
        return None
