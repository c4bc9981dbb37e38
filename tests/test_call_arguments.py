"""What calls were given on each rank: read off the line of source and the frame's variables."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from whyhang.analyzer.facts import CallArgument, Who
from whyhang.collectors.files import claims
from whyhang.collectors.live.call_arguments import parsed, read_arguments, sites

FILE = "/work/train.py"


def _printed(*frames: tuple[str, int, Mapping[str, str]], pid: int = 7) -> bytes:
    """Print a main thread as py-spy does with --locals, the innermost frame first."""
    shown = [
        {
            "name": name,
            "filename": FILE,
            "line": line,
            "locals": [{"name": key, "repr": value} for key, value in variables.items()],
        }
        for name, line, variables in frames
    ]
    thread = {"pid": pid, "thread_id": pid, "os_thread_id": pid, "frames": shown}
    return json.dumps([thread]).encode()


def _arguments(source: str, *frames: tuple[str, int, Mapping[str, str]]) -> list[str]:
    data, tree = _printed(*frames), parsed(source.encode())
    assert tree is not None
    found = read_arguments(Who(pid=7), data, sites({7: data}), {FILE: tree})
    return [f"{fact.name}={fact.value}" for fact in found]


@pytest.mark.parametrize(
    ("call", "variables", "told"),
    [
        ("dist.broadcast(x, src=best)", {"best": "3"}, ["src=3"]),
        ("comm.Bcast(x, root=conf['lead'] + 1)", {"conf": '{"lead": 2, "x": 1}'}, ["root=3"]),
        ("comm.send(x, peers[0], 200 + step % 4)", {"peers": "[5]", "step": "6"},
         ["dest=5", "tag=202"]),
        ("dist.broadcast(x, src=0 if step % 2 else 3)", {"step": "6"}, ["src=3"]),
        ("dist.broadcast(x, src=0 if step < 4 else late)", {"step": "6"}, []),
        ("comm.send(x, 0, 7 if n == 'a' else 8)", {"n": "4"}, ["dest=0"]),
        ("comm.Reduce(a, b, MPI.SUM, where)", {"where": "1"}, ["root=1"]),
        ("dist.all_reduce(x, group=self.groups[name])", {"name": '"tp"'},
         ["group=self.groups['tp']"]),
        ("dist.all_reduce(x, group=group)", {"group": "<ProcessGroup at 0x7f>"}, []),
        ("comm.bcast(x, root=leader())", {"leader": "<function at 0x7f>"}, []),
        ("comm.bcast(x, root=self.root)", {"self": "<Solver at 0x7f>"}, []),
        ("comm.bcast(x, root=n // zero)", {"n": "4", "zero": "0"}, []),
        ("comm.bcast(*given)", {"given": "[1, 2]"}, []),
    ],
)  # fmt: skip
def test_an_argument_of_a_call(call: str, variables: Mapping[str, str], told: list[str]) -> None:
    """Constants, variables, arithmetic and indices have a value; nothing is called for one."""
    assert _arguments(f"def step():\n    {call}\n", ("step", 2, variables)) == told


@pytest.mark.parametrize(
    ("begun", "told"),
    [
        ("work = [dist.P2POp(dist.isend, x, to), dist.P2POp(dist.irecv, y, 4)]",
         ["isend peer=2", "irecv peer=4"]),
        ("work = [comm.Isend(x, dest=to, tag=7)]", ["Isend dest=2", "Isend tag=7"]),
        ("comm.send(x, dest=to)", []),
    ],
)  # fmt: skip
def test_messages_that_were_begun_above_a_wait(begun: str, told: list[str]) -> None:
    """Who waits for requests waits for those whom the messages name, and for no others."""
    source = f"def swap():\n    {begun}\n    for w in work:\n        w.wait()\n"
    data, tree = _printed(("swap", 4, {"to": "2"})), parsed(source.encode())
    assert tree is not None

    found = read_arguments(Who(pid=7), data, sites({7: data}), {FILE: tree})

    assert [f"{fact.op} {fact.name}={fact.value}" for fact in found] == told


def test_a_constant_of_the_file() -> None:
    """What a name is set to once, at the top of the file, is its value in every function."""
    source = "BASE: int = 8\nTAG = BASE + 1\nSIZE = 4\ndef step():\n    comm.send(x, SIZE, TAG)\n"
    at = ("step", 5, {})
    assert _arguments(source, at) == ["dest=4", "tag=9"]
    assert _arguments(source + "def grow():\n    global SIZE\n    SIZE = 5\n", at) == ["tag=9"]


def test_the_length_of_a_loop_around_a_call() -> None:
    """Of the loops around the line, by range(n); not of one that is over."""
    source = (
        "def fill(n):\n    for _ in range(3):\n        pass\n"
        "    for i in range(n):\n        dist.send(x, dst=1)\n"
    )

    assert _arguments(source, ("fill", 5, {"n": "8", "i": "2"})) == ["range=8", "dst=1"]


def test_a_rank_that_has_come_past_the_call() -> None:
    """Its variables still tell the root, but for one that a loop has counted on since."""
    source = (
        "def go():\n    for i in range(9):\n        comm.bcast(x, root={})\n        barrier()\n"
    )
    for root, told in (("lead", ["root=2"]), ("i % 4", [])):
        here = _printed(("go", 3, {"lead": "2", "i": "1"}), pid=1)
        past = _printed(("go", 4, {"lead": "2", "i": "5"}), pid=2)
        tree = parsed(source.format(root).encode())
        assert tree is not None
        call = [site for site in sites({1: here, 2: past}) if site.line == 3]
        found = read_arguments(Who(pid=2), past, call, {FILE: tree})
        assert [f"{f.name}={f.value}" for f in found if f.name == "root"] == told
        assert not any(fact.stands for fact in found)


def test_the_tag_of_a_call_that_is_over() -> None:
    """It is told by what is set before any loop; each turn of a loop has a tag of its own."""
    turn = (
        "def go():\n    {}\n    while True:\n        {}\n"
        "        comm.recv(x, 0, tag)\n        end()\n"
    )
    for source, told in (
        (turn.format("tag = 7", "pass"), ["7"]),
        (turn.format("pass", "tag += 1"), []),
    ):
        here, past = (
            _printed(("go", line, {"tag": "7"}), pid=pid) for pid, line in ((1, 5), (2, 6))
        )
        tree = parsed(source.encode())
        assert tree is not None
        call = [site for site in sites({1: here, 2: past}) if site.line == 5]
        found = read_arguments(Who(pid=2), past, call, {FILE: tree})
        assert [fact.value for fact in found if fact.name == "tag"] == told


def test_a_rank_that_has_left_the_function() -> None:
    """Who called it has the length of the loop by the same name."""
    source = (
        "def fill(n):\n    for i in range(n):\n        dist.recv(x)\n\ndef main():\n    fill(n)\n"
    )
    inside = _printed(("fill", 3, {"n": "8"}), ("main", 6, {"n": "8"}), pid=1)
    outside = _printed(("main", 6, {"n": "7"}), pid=2)
    tree = parsed(source.encode())
    assert tree is not None

    found = read_arguments(Who(pid=2), outside, sites({1: inside, 2: outside}), {FILE: tree})

    assert {(f.name, f.value, f.line) for f in found} == {("range", "7", 2)}


def test_what_cannot_be_parsed_tells_nothing() -> None:
    """A file of another Python, or of none."""
    assert parsed(b"print 'old'\n") is None
    assert parsed(b"\0\xff") is None


def test_a_secret_is_blanked() -> None:
    """Text that picks a group may be anything."""
    (told,) = _arguments(
        "def step():\n    all_reduce(x, group=groups[key])\n",
        ("step", 2, {"key": '"hf_abcdefghijklmnopqrstuvwxyz0123456789"'}),
    )
    assert "abcdefghij" not in told


def test_it_is_read_back_from_a_bundle() -> None:
    """As every statement of a live run."""
    fact = CallArgument(
        op="Bcast", name="root", value="3", function="Run.go", file="a/b.py", line=9, stands=False,
        who=Who(rank=1), source=claims.Source(file="claims.json"),
    )  # fmt: skip
    (row,) = claims.rows(fact)

    assert claims.statement(row) == fact
