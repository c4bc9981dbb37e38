"""Summaries that people write by hand."""

from __future__ import annotations

import pytest
from stack_docs import document, dumps, functions

from whyhang.analyzer.facts import Trust
from whyhang.collectors.prose.reader import READER

MESH = """\
DP0,2:   broadcast              (torch/distributed/distributed_c10d.py:2841)
DP1:     prepare  (spec_worker.py:163)
           run_loop (decode.py:1848)
"""

TOPS = """\
node03
    broadcast
    broadcast
node05
    wait
    all_reduce
"""


def test_places_in_a_mesh() -> None:
    """DP0 to DP2, once each, are ranks by inference; frames below a line are its callers."""
    stacks = dumps(READER, MESH)

    assert [(d.who.rank, d.who.trust, d.who.label) for d in stacks] == [
        (0, Trust.INFERRED, "DP0"),
        (2, Trust.INFERRED, "DP2"),
        (1, Trust.INFERRED, "DP1"),
    ]
    assert functions(stacks[2].threads[0].frames) == ["prepare", "run_loop"]
    assert (stacks[2].source.line, stacks[2].main_only) == (2, True)


def test_a_mesh_with_holes_gives_no_ranks() -> None:
    """Of DP0 and DP2 alone no rank is concluded."""
    stacks = dumps(READER, MESH.splitlines()[0])

    assert [(dump.who.rank, dump.who.label) for dump in stacks] == [(None, "DP0"), (None, "DP2")]


def test_ranks_in_a_list() -> None:
    """Bullets, ranges and backticks as in an incident's thread."""
    text = (
        "- ranks 0-2 and 5: stuck in `all_reduce (torch/distributed/distributed_c10d.py:2806)`\n"
        "- rank 3: `__getitem__ (dataset.py:51)`\n"
        "- 2 processes: sleep (util.py:3)\n"
    )

    stacks = dumps(READER, text)

    assert [dump.who.rank for dump in stacks] == [0, 1, 2, 5, 3, None]
    assert stacks[3].who.trust is Trust.CONTENT
    assert stacks[5].copies == 2


def test_a_range_with_dots() -> None:
    """Ranges are written with dots as well."""
    text = (
        "DP0,1: synchronize (torch/cuda/__init__.py:1083)\n"
        "DP2..4:  broadcast (torch/distributed/distributed_c10d.py:2841)\n"
    )

    assert [dump.who.rank for dump in dumps(READER, text)] == [0, 1, 2, 3, 4]


def test_top_functions_by_host() -> None:
    """A host with the top function of each process; equal ones in a row are one entry."""
    stacks = dumps(READER, TOPS)

    rows = [(d.who.host, d.who.label, d.copies, d.threads[0].frames[0].function) for d in stacks]
    assert rows == [
        ("node03", "processes 1-2", 2, "broadcast"),
        ("node05", "process 1", 1, "wait"),
        ("node05", "process 2", 1, "all_reduce"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "hosts\n    alpha\n    beta\n",
        "step 1: loss 0.5 (train.py)\n",
        'Thread 1 (idle): "MainThread"\n    f (a.py:1)\n',
        "key:\n  - value\n  - other\n",
        "",
    ],
)
def test_other_texts_are_declined(text: str) -> None:
    """Lists, logs and tools' own output are no summaries."""
    assert not READER.sniff(document(text))


def test_places_with_in_and_lists_of_ranks() -> None:
    """A tool that folds ranks writes the place first, and callers below it."""
    text = (
        "ranks [0, 2-3]  stopped at mesh.py:69 in radius\n"
        "        via  swarm.py:37 in migrate\n"
        "rank  [1]       stopped at swarm.py:38 in migrate\n"
    )
    stacks = dumps(READER, text)

    assert [(dump.who.rank, functions(dump.threads[0].frames)) for dump in stacks] == [
        (0, ["radius", "migrate"]),
        (2, ["radius", "migrate"]),
        (3, ["radius", "migrate"]),
        (1, ["migrate"]),
    ]
