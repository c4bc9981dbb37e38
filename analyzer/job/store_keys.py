"""What the names of a store's keys say: who has joined which group.

torch names them by nested prefixes (seen in torch 2.13; torch/distributed/distributed_c10d.py,
gloo/rendezvous/context.cc): ``default_pg/0//cpu//0/2`` is the address of rank 2 of group "0" for
gloo, put there when the rank builds the group; ``default_pg/0//1//cpu//0/0`` that of group "1"
made by ``new_group``; ``default_pg/0//cuda//0`` the id of the first NCCL communicator of group
"0", put there by its first rank; ``init/`` counts the clients that the store's owner waits for;
``store_based_barrier_key:1`` those that have come to a barrier.
"""

import contextlib
import re
from collections import defaultdict

import msgspec

from whyhang.analyzer.facts import Record, StoreView, whole

_ADDRESS = re.compile(r"(?P<path>.*?)//(?P<device>cpu|cuda|xpu|hpu|npu)//\d+/(?P<rank>\d+)$")


class Joined(Record):
    """Who has put its address into the store for one group; ``ranks`` count within the group.

    ``default``: it is the group of all ranks, where they are global ranks.
    """

    default: bool
    ranks: tuple[int, ...]


def joined(view: StoreView) -> tuple[Joined, ...]:
    """List the gloo groups that ranks have begun to build, the default group first."""
    ranks_of: dict[str, set[int]] = defaultdict(set)
    for match in filter(None, map(_ADDRESS.match, view.keys or ())):
        ranks_of[match["path"]].add(int(match["rank"]))
    groups = []
    for path, ranks in sorted(ranks_of.items()):
        default = "//" not in path.rsplit("default_pg/", maxsplit=1)[-1]
        groups.append(Joined(default=default, ranks=tuple(sorted(ranks))))
    return tuple(sorted(groups, key=lambda group: not group.default))


def clients(view: StoreView) -> int | None:
    """Return how many clients the store's owner has counted; under torchrun the agents as well."""
    return whole(view.values.get("init/"))


class Round(Record):
    """A round of torchrun's c10d rendezvous; nodes are "host pid" of their agents.

    ``waiting`` have come too late for it.
    """

    round: int
    complete: bool
    nodes: tuple[str, ...]
    waiting: tuple[str, ...] = ()

    @property
    def hosts(self) -> tuple[str, ...]:
        """The hosts of the nodes."""
        return tuple(node.partition(" ")[0] for node in self.nodes)


def round_of(view: StoreView, run_id: str) -> Round | None:
    """Return the state of the rendezvous of this name, or None where the store holds none."""
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError):
        return msgspec.json.decode(view.values.get(f"torch.rendezvous.{run_id}", ""), type=Round)
    return None
