"""Facts of where ranks come together: a store, a file, a rendezvous."""

from whyhang.analyzer.facts.base import Record, Sourced


class Listener(Record):
    """A process that listens on the port of a store; no ``pid``: this user may not see whose.

    ``ours``: it belongs to the job that is looked at. ``same_script``: it is a Python program
    that runs the same script, as what an earlier run left behind does.
    """

    address: str
    pid: int | None = None
    command: str = ""
    started_at: float | None = None
    rank: int | None = None
    ours: bool = False
    same_script: bool = False


class StoreView(Sourced):
    """What the place where the ranks are to meet (a TCPStore) told a client that only asked.

    ``host`` and ``port`` are as the job names them, ``asked_by`` the processes that it named them
    to, ``resolved`` the addresses of the name as they see it. ``outcome`` is "answered";
    "silent": it took the connection and said nothing; "stranger": it said something that no store
    says (``why`` quotes it); "closed": it hung up; "refused"; "unreachable": nothing came back
    from there; "unresolved": the name has no address; "unanswered": the time was up before the
    name was resolved; "elsewhere": it is in a network that this user may not enter; "failed".
    ``keys`` are the names of what is stored, without their common first slash; not ``complete``:
    only those of a few likely ones that exist. ``num_keys``, for who reads the bundle, says how
    many there are where they could not be listed. ``values`` holds what is known to be harmless:
    counts and who has joined a rendezvous. ``listeners`` are who listens on that port in the
    network of those processes, ``own_address`` whether the address is one of that network's own;
    ``network`` names it, so that one can tell whether two views are from the same. With
    ``--probe``: ``mtu`` is the size in bytes of the largest packet that the kernel would send
    there, ``echo_small`` and ``echo_large`` whether a small one and one of that size came back.
    "not asked": the port was only connected to.
    """

    host: str
    port: int
    outcome: str
    why: str = ""
    resolved: tuple[str, ...] = ()
    connected_to: str | None = None
    asked_by: tuple[int, ...] = ()
    num_keys: int | None = None
    keys: tuple[str, ...] | None = None
    complete: bool = True
    values: dict[str, str] = {}
    listeners: tuple[Listener, ...] = ()
    own_address: bool | None = None
    network: str | None = None
    mtu: int | None = None
    echo_small: bool | None = None
    echo_large: bool | None = None


class FileView(Sourced):
    """The file that ranks meet through, as the processes ``asked_by`` see it.

    ``why`` says what kept it from being opened. ``modified_at`` and ``keys`` are for who reads the
    bundle: how old it is, who has come. ``processes`` is how many it has counted,
    ``repeated`` are keys that were set more than once: a rank sets its address once a start.
    """

    path: str
    asked_by: tuple[int, ...]
    folder_exists: bool
    exists: bool
    why: str = ""
    device: int | None = None
    inode: int | None = None
    size: int | None = None
    modified_at: float | None = None
    processes: int | None = None
    keys: tuple[str, ...] = ()
    repeated: tuple[str, ...] = ()


class Agent(Sourced):
    """What a launcher with a rendezvous of its own (torchrun's agent) was told, and what it does.

    ``endpoint`` is "host:port" where agents meet, ``run_id`` the name of the meeting. ``meeting``:
    it waits there for the agents of other nodes and has started no rank (None: not known).
    ``reached``: it holds the meeting place or is connected to it. ``joined`` counts the nodes that
    have come, as far as its sockets tell.
    ``restarts`` counts how often it has started its ranks anew. ``quote`` is what says so.
    """

    quote: str
    backend: str | None = None  # "c10d", "static", "etcd", "etcd-v2"
    min_nodes: int | None = None
    max_nodes: int | None = None
    per_node: int | None = None
    node_rank: int | None = None
    endpoint: str | None = None
    run_id: str | None = None
    meeting: bool | None = None
    reached: bool | None = None
    joined: int | None = None
    restarts: int | None = None
