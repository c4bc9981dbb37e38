"""NCCL's RAS reports, as text and JSON, lead to the ranks that are behind, missing or dead."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_docs import document, of
from ras_docs import (
    BEHIND,
    BEHIND_OLD,
    DEAD,
    FAILED,
    FEW_AHEAD,
    HALVES,
    LEFT,
    NUMBERS_ONLY,
    OTHER_ORDER,
    SILENT,
    answer,
    text,
)
from small_jobs import ALL_REDUCE, dump, process, report_of

from whyhang.analyzer.facts import Fact, Gap, LogLine, ProcessRank, RasReport, Track
from whyhang.analyzer.report import Report
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.ras.reader import RasReader


def facts(data: str | bytes, name: str = "notes.txt", look: int = 0) -> list[Fact]:
    """Read a report the way a folder is read."""
    from whyhang.analyzer.facts import replace

    return list(read_documents([replace(document(data, name), look=look)], readers=READERS))


def diagnosis(*data: str) -> Report:
    """Diagnose from reports alone, each one a later look."""
    return report_of([f for n, one in enumerate(data) for f in facts(one, f"ras{n}.out", n)])


@pytest.mark.parametrize(
    ("data", "signature", "culprits"),
    [
        (BEHIND, "missing-rank-in-collective", (5,)),
        (BEHIND_OLD, "missing-rank-in-collective", (0, 3)),
        (OTHER_ORDER, "ras-orders-differ", None),
        (SILENT, "ras-process-missing", (5,)),
        (DEAD, "ras-process-missing", (5,)),
        (LEFT, "ras-rank-left-communicator", (2,)),
        (FAILED, "ras-rank-error", (9,)),
        (FEW_AHEAD, "ras-few-ahead", None),
        (NUMBERS_ONLY, "ras-process-missing", (3, 7)),
        (text(), "ras-all-even", None),
        (answer({0: (9, 412), 1: (9, 412), 2: (9, 411), 3: (9, 412)}), "missing-rank-in-collective",
         (2,)),
        (answer({0: (9, 412), 1: (9, 412), 2: (10, 411), 3: (9, 412)}), "collective-mismatch",
         (2,)),
        (answer({0: (9, 412), 1: (9, 412), 3: (9, 412)}, unresponsive={2: 1}),
         "ras-process-missing", (2,)),
        (answer({0: (9, 412), 1: (9, 412), 3: (9, 412)}, dead={2: 1}), "ras-process-missing",
         (2,)),
        (answer({0: (9, 412), 1: (9, 412), 3: (9, 412)}, left={2: 1}),
         "ras-rank-left-communicator", (2,)),
        (answer({0: (9, 9), 1: (9, 9), 2: (9, 9), 3: (9, 9)}), "ras-all-even", None),
    ],
)  # fmt: skip
def test_a_report_names_who_is_behind_or_gone(
    data: str, signature: str, culprits: tuple[int, ...] | None
) -> None:
    """Each thing that RAS can tell becomes one finding about the right ranks, or about none."""
    report = diagnosis(data)

    assert report.findings[0].signature == signature
    assert report.findings[0].culprit_ranks == culprits


def test_a_late_rank_is_reported_in_the_words_of_the_job() -> None:
    """The operation, its number and the communicator's name are those of NCCL's own log."""
    finding = diagnosis(BEHIND).findings[0].collective

    assert finding is not None
    assert (finding.op, finding.seq, finding.group) == (
        "all_reduce",
        412,
        "nccl 0x7c5d1b0e6a2f9034",
    )


def test_each_side_is_given_its_own_operation() -> None:
    """Of two operations that differ, each rank called the one that it is ahead in."""
    two = text(
        warnings="""\
        #0-0 (7c5d1b0e6a2f9034) MISMATCH
          Communicator ranks have different Broadcast operation counts
          15 ranks have launched up to operation 413
          Rank 2 has launched up to operation 412 -- GPU 2 managed by process 9 on node 10.1.0.4

          Communicator ranks have different AllGather operation counts
          15 ranks have launched up to operation 96
          Rank 2 has launched up to operation 97 -- GPU 2 managed by process 9 on node 10.1.0.4
        """
    )
    ops = {track.who.rank: track.calls[0].op for track in of(facts(two), Track)}

    assert ops == {rank: "all_gather" if rank == 2 else "broadcast" for rank in range(16)}


def test_half_against_half_names_nobody() -> None:
    """Where a text report lists no rank, nobody is taken for late."""
    assert of(facts(HALVES), Track) == []
    (finding,) = diagnosis(HALVES).findings
    assert (finding.signature, finding.culprit_ranks) == ("ras-uneven", None)


def test_echoes_of_a_dead_process_are_its_effects() -> None:
    """Ranks with a remote error follow from the dead one."""
    first, *others = diagnosis(DEAD).findings

    assert {f.signature for f in others} == {"ras-remote-error"}
    assert all(f.caused_by == 0 for f in others)
    assert first.category == "rank-died"


def test_counts_that_move_blame_nobody() -> None:
    """A rank that is behind at two looks, but went on in between, belongs to a job that moves."""
    before = answer({0: (9, 412), 1: (9, 412), 2: (9, 411), 3: (9, 412)})
    after = answer({0: (9, 470), 1: (9, 470), 2: (9, 469), 3: (9, 470)})

    still = diagnosis(before, before).findings[0]
    assert (still.signature, still.culprit_ranks) == ("missing-rank-in-collective", (2,))
    assert all(f.culprit_ranks is None for f in diagnosis(before, after).findings)


def test_a_text_that_no_longer_tells_of_a_group_takes_it_back() -> None:
    """A rank behind at the first look and not told of at the second is not late."""
    assert all(f.culprit_ranks is None for f in diagnosis(BEHIND, text()).findings)
    assert diagnosis(SILENT, text()).findings[0].signature == "ras-all-even"


def test_json_with_its_forgotten_comma_is_read() -> None:
    """NCCL 2.28.7 to 2.28.9 leave out a comma in the list of missing ranks."""
    good = answer({0: (9, 412), 1: (9, 412), 3: (9, 412)}, dead={2: 1})
    broken = good.replace('"nvml_dev": 0,\n          "status": {\n            "unresp',
                          '"nvml_dev": 0\n          "status": {\n            "unresp')  # fmt: skip
    assert broken != good
    with pytest.raises(ValueError, match="delimiter"):
        json.loads(broken)

    assert diagnosis(broken).findings[0].culprit_ranks == (2,)
    assert of(facts(broken), Gap) == []


def test_a_cut_answer_tells_what_is_whole() -> None:
    """Of a cut answer the whole communicators are used, and that it is cut is said."""
    whole = answer({0: (9, 412), 1: (9, 411), 2: (9, 412), 3: (9, 412)})
    cut = whole[: whole.index('"ras"')]

    assert "cut off" in of(facts(cut), Gap)[0].why
    assert diagnosis(cut).findings[0].culprit_ranks == (1,)
    assert "cut off" in of(facts(SILENT[: SILENT.index("Warnings")]), Gap)[0].why


def test_the_answers_of_the_dialogue_may_stand_in_front() -> None:
    """What the server said before the report does not keep it from being read."""
    text = "SERVER PROTOCOL 2\nOK\nOK\n"

    for data in (BEHIND, answer({0: (1, 1), 1: (1, 1), 2: (1, 1), 3: (1, 1)})):
        assert RasReader().owns(document(text + data))
        assert of(facts(text + data), RasReport)


def test_a_subgroup_is_joined_to_the_job_by_its_processes() -> None:
    """Ranks of a smaller communicator are found by the pids of the one that spans the job."""
    whole = json.loads(answer(dict.fromkeys(range(4), (9, 412))))
    part = json.loads(answer({0: (3, 7), 1: (3, 6)}, size=2))["communicators"][0]
    part["hash"] = "0xabc"
    for row, pid in zip(part["ranks"], (102, 103), strict=True):
        row["pid"] = pid
    part["ranks"].append({**part["ranks"][0], "rank": 2, "pid": 101})
    part["size"] = 3
    whole["communicators"].append(part)

    assert diagnosis(json.dumps(whole)).findings[0].culprit_ranks == (3,)


def test_numbers_of_a_communicator_are_not_taken_for_ranks() -> None:
    """Without a communicator of the whole job, rank 1 of a part is nobody's number."""
    parts = [json.loads(answer({0: (3, 7), 1: (3, 6), 2: (3, 7)}, size=3)) for _ in range(2)]
    for row in parts[1]["communicators"][0]["ranks"]:
        row["pid"] += 50
    parts[0]["communicators"].append({**parts[1]["communicators"][0], "hash": "0xdef"})
    data = json.dumps(parts[0])

    assert all(f.culprit_ranks is None for f in diagnosis(data).findings)
    assert all(track.who.rank is None for track in of(facts(data), Track))


def test_garbage_is_a_gap() -> None:
    """What looks like a report and is none, or is full of senseless numbers, ends in no verdict."""
    senseless = answer({0: (9, 412), 1: (9, 411)}).replace('"rank": 1,', '"rank": 1057455228,')
    assert all(f.culprit_ranks is None for f in diagnosis(senseless).findings)
    assert of(facts('{"communicators": 7, "nccl_version": "x"}'), Gap)
    assert of(facts('{"communicators_count": 1, "communicators": [{"hash": "0xzz"'), Gap)


def test_lines_are_quoted_where_they_stand() -> None:
    """Each statement cites the line of the report that it rests on."""
    (line,) = [fact for fact in of(facts(LEFT), LogLine) if fact.fields["state"] == "left"]

    assert LEFT.splitlines()[(line.source.line or 0) - 1].strip() == line.text


def test_what_silenced_a_process_is_its_cause() -> None:
    """A rank that is stopped by a signal does not answer RAS: one cause, one effect."""
    stopped: list[Fact] = []
    for rank in range(4):
        stopped += [dump(rank, ALL_REDUCE), process(rank, state="T" if rank == 1 else "S")]
    silent = answer(dict.fromkeys((0, 2, 3), (9, 412)), unresponsive={1: 1})
    findings = [f for f in facts(silent) if not isinstance(f, ProcessRank)]

    first, second, *_ = report_of([*stopped, *findings]).findings

    assert (first.signature, first.culprit_ranks) == ("rank-stopped", (1,))
    assert (second.signature, second.caused_by) == ("ras-process-missing", 0)


@given(
    st.sampled_from([BEHIND, OTHER_ORDER, DEAD, answer({0: (9, 412), 1: (9, 411)}, dead={2: 1})]),
    st.data(),
)
def test_damage_never_raises(good: str, data: st.DataObject) -> None:
    """A report with parts cut out, doubled or replaced is read or becomes a gap."""
    raw = bytearray(good.encode())
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(raw)))
        end = min(len(raw), start + data.draw(st.integers(0, 200)))
        raw[start:end] = data.draw(
            st.sampled_from([b"", bytes(raw[start:end]) * 2, b"9" * 30, b"{"])
        )

    read = list(RasReader().read(document(bytes(raw), "ras")))
    report_of(read)


@pytest.mark.parametrize("run", ["\t", "1", "1, ", " -- GPU ", "x ", "GPU 1 managed by process "])
def test_no_run_of_characters_takes_long(run: str) -> None:
    """Each line may have thousands of anything in it, at its end or within."""
    for good in (BEHIND, OTHER_ORDER, DEAD, NUMBERS_ONLY):
        for size in (600, 16_000, 100_000):
            long = run * (size // len(run))
            for spoilt in (
                [f"{line}{long}" for line in good.split("\n")],
                [line.replace(" GPU", f" {long} GPU") for line in good.split("\n")],
                [line.replace("Rank", f"Rank {long}") for line in good.split("\n")],
            ):
                started = time.process_time()
                gaps = of(list(RasReader().read(document("\n".join(spoilt), "ras"))), Gap)
                assert time.process_time() - started < 1
                assert all(str(gap).startswith(("reading", "the NCCL RAS")) for gap in gaps)


def test_a_report_of_thousands_of_communicators_is_read_at_once() -> None:
    """Pipelines and expert groups of a big job make thousands of communicators."""
    one = json.loads(answer({0: (9, 412), 1: (9, 411)}, size=2))
    comm = one["communicators"][0]
    one["communicators"] = [{**comm, "hash": hex(n)} for n in range(4000)]
    text = json.dumps(one, indent=2)

    before = time.process_time()
    records = of(facts(text), Track)

    assert len(records) == 8000
    assert time.process_time() - before < 4.0
