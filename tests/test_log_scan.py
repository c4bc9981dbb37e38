"""The scan of whole files: whatever a log is made of, the evidence is found."""

from __future__ import annotations

import gzip
import io
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from log_docs import document, lines, of, read_log

from whyhang.analyzer.facts import Gap, LogLine, Track, replace
from whyhang.collectors.logs import reader
from whyhang.collectors.logs.engine import matching
from whyhang.collectors.logs.engine.byte_blocks import AHEAD, READ
from whyhang.collectors.logs.engine.matching import Match, Matching
from whyhang.collectors.logs.lines import signature_lines as log_fold
from whyhang.collectors.logs.lines.signature_lines import KEEP_FIRST
from whyhang.collectors.logs.lines.watchdog import WatchdogReader
from whyhang.collectors.logs.reader import LogReader, looks_like_text

pytestmark = pytest.mark.usefixtures("no_own_patterns")

OOM = r"CUDA out of memory\. Tried to allocate (?P<size>[\d.]+ \w+)"
HIT = "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB (GPU 0)"
NOISE = "iteration 7 | loss 2.1 | time 3.2 s\n"


@pytest.mark.parametrize(
    ("data", "number"),
    [
        (f"{NOISE}{HIT}\n", 2),
        (f"{NOISE}{HIT}", 2),
        (f"{NOISE}{HIT}\r\n".replace("\n", "\r\n"), 2),
        (f"{NOISE}\x1b[31mRuntimeError\x1b[0m: CUDA \x1b[1mout\x1b[0m of memory. {HIT[34:]}", 2),
        (f"{NOISE}10%\r20%\r{HIT}\r30%\n", 2),
        (f"\0\0\0\0{NOISE}\0{HIT.replace('CUDA', 'CU' + chr(0) + 'DA')}\0{HIT}\n", 2),
        (f"{NOISE}é{HIT}".encode("latin-1"), 2),
        (f"{NOISE}{'x' * 30000} {HIT} {'y' * 30000}\n", 2),
        (f'{NOISE * 9}{{"log":"{HIT}\\n","stream":"stderr"}}\n', 10),
    ],
    ids=["plain", "no-newline", "crlf", "colours", "progress", "nul", "latin1", "long", "docker"],
)
@pytest.mark.parametrize("engine", ["auto", "words"])
def test_evidence_survives(data: str | bytes, number: int, engine: str) -> None:
    """Line ends, colours, NUL bytes, encodings, progress bars and length hide nothing."""
    (hit,) = lines(data, OOM, engine=engine)

    assert "CUDA out of memory" in hit.text
    assert len(hit.text) <= log_fold.MAX_TEXT
    assert hit.fields == {"size": "2.00 GiB"}
    assert hit.source.line == number


def test_a_line_of_ten_megabytes_without_an_end() -> None:
    """Evidence at the start, in the middle and at the end of one endless line is found."""
    filler = "0123456789abcdef" * 20000
    data = f"{HIT} A {filler * 12} {HIT} B {filler * 12}{HIT} C"
    hits = lines(data, r"out of memory.{1,60}(?P<mark>[ABC])")

    assert [line.fields["mark"] for line in hits] == ["A", "B", "C"]
    assert {line.source.line for line in hits} == {1}
    assert [line.offset for line in hits] == sorted(line.offset or 0 for line in hits)


def test_numbers_and_offsets_over_many_blocks() -> None:
    """Lines are numbered through the whole file, in threads as well."""
    text = NOISE * 260_000
    middle = len(text) // 2 // len(NOISE) * len(NOISE)
    data = text[:middle] + HIT + " one\n" + text[middle:] + HIT + " two\n"
    assert len(data) > 2 * (READ + AHEAD)
    hits = lines(data, r"out of memory.*(?P<n>one|two)")

    for line in hits:
        at = data.index(f"{HIT} {line.fields['n']}")
        assert line.offset == at
        assert line.source.line == data.count("\n", 0, at) + 1
    assert len(hits) == 2


def test_alike_lines_are_folded() -> None:
    """Of a kind the first few and the last are kept; the counts add up, and no rank is lost."""
    text = "".join(f"[rank{n % 4}]: {HIT}\n" for n in range(4000))
    hits = lines(text, OOM)

    assert len(hits) == 4 * (KEEP_FIRST + 1)
    assert sum(line.count for line in hits) == 4000
    assert hits[-1].source.line == 4000
    assert {line.who.rank for line in hits} == {0, 1, 2, 3}


def test_a_storm_costs_little_and_hides_nothing() -> None:
    """Tens of thousands of lines of one kind leave the one line of another kind found."""
    storm = f"[rank1]: {HIT}\n" * 30_000
    hits = lines(storm + "[rank2]: something else 7\n" + storm, OOM, r"something else (?P<n>\d)")

    assert [line.source.line for line in hits if line.fields.get("n")] == [30_001]
    assert sum(line.count for line in hits if "size" in line.fields) == 60_000


def test_new_fields_are_kept_separately() -> None:
    """Lines that capture something new are not folded into older ones."""
    codes = [45] * 50 + [79] + [45] * 50
    text = "".join(f"NVRM: Xid (PCI:0000:1b:00): {code}, x\n" for code in codes)
    hits = lines(text, r"NVRM: Xid \(PCI:[0-9a-f:]+\): (?P<xid>\d+)")

    assert [line.fields["xid"] for line in hits].count("79") == 1


def test_patterns_that_share_a_line() -> None:
    """One line is one fact with all its patterns, unless they capture different things."""
    (both,) = lines(HIT, OOM, r"RuntimeError: (?P<what>CUDA)")
    hits = lines("rank 1 waits for rank 2", r"^rank (?P<rank>\d)", r"for rank (?P<rank>\d)")

    assert both.fields == {"size": "2.00 GiB", "what": "CUDA"}
    assert len(both.matched) == 2
    assert sorted(line.fields["rank"] for line in hits) == ["1", "2"]


def test_patterns_see_the_line_without_its_prefix() -> None:
    """An anchored pattern matches behind the launcher's prefix; one may also want it whole."""
    assert lines("[rank1]: Traceback here", "^Traceback")[0].who.rank == 1
    assert lines("[rank1]: Traceback here", r"^\[rank1\]")[0].who.rank == 1


def test_times_are_taken_from_the_lines_above() -> None:
    """A line without time gets the last one told."""
    (hit,) = lines(f"2024-06-07 12:00:00,5 INFO x\n{NOISE}{HIT}\n", OOM)

    assert hit.time == pytest.approx(1717761600.5)


def test_an_indented_line_goes_on_from_the_one_above() -> None:
    """The second line of a message is the same speaker's."""
    text = "rank 0: RuntimeError: [unbound_buffer.cc:67]\n        Timed out waiting 5000ms\n"
    (hit,) = lines(text, "Timed out waiting")

    assert hit.who.rank == 0


def test_bad_and_slow_patterns_are_named() -> None:
    """An invalid pattern and one that takes for ever become gaps; the others are found."""
    slow = r"(?:a|aa)+(?:b|bb)+x(?:a|aa)+$"
    data = "a" * 60 + "bbx" + "a" * 4000 + "!\n" + HIT + "\n"
    facts = read_log(data, OOM, "broken (", slow)
    gaps = [gap.what for gap in of(facts, Gap)]

    chosen_lines = [line for line in of(facts, LogLine) if OOM in line.matched]
    assert [line.fields for line in chosen_lines] == [{"size": "2.00 GiB"}]
    assert any("broken" in what for what in gaps)
    assert any("a|aa" in what for what in gaps)


def test_a_broken_archive_yields_what_was_before_the_break() -> None:
    """What could be read is used, the rest is a gap."""
    rest = "".join(f"{number * 7919 % 10007}\n" for number in range(300_000))
    data = gzip.compress(f"{HIT}\n{rest}".encode())
    cut = data[: len(data) // 2]
    broken = replace(document(HIT), size=10**6, open=lambda: gzip.GzipFile(fileobj=io.BytesIO(cut)))
    facts = list(LogReader([OOM]).read(broken))

    assert len([line for line in of(facts, LogLine) if OOM in line.matched]) == 1
    assert any("to its end" in gap.what for gap in of(facts, Gap))


@pytest.mark.parametrize(
    ("head", "text"),
    [
        (b"", True),
        (b"plain text\n", True),
        ("Überraschung ÄÖÜ\n".encode("latin-1") * 9, True),
        (b"\0" * 5000 + b"text after a truncated log\n" * 400, True),
        ("日本語のログ\n".encode() * 50, True),
        (b"\xff" + "Ошибка обмена\n".encode() * 50, True),
        ("Ошибка обмена\n".encode() * 50 + "é".encode()[:1], True),
        (bytes(range(0x80, 0x100)) * 20, False),
        (b"\x80\x02}q\x00(X\x07\x00\x00\x00entriesq\x01](", False),
        (bytes(range(256)) * 8, False),
        (b"\x7fELF\x02\x01", False),
    ],
)
def test_what_looks_like_text(head: bytes, *, text: bool) -> None:
    """Text in any encoding is taken, pickles and binaries are not."""
    assert looks_like_text(head) is text
    assert LogReader([]).sniff(document(head)) is text


PIECES = (
    "\n|\r|\0|\x1b[|[rank1]: |[default0]:|3: |Traceback (most recent call last):\n"
    '|  File "a.py", line 1, in f\n|WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn='
    "|: opCount 1a sendbuff | count 5 datatype 7 op 0 root 0 comm 0x1 [nranks=2] stream"
    "|n:1:2 [0] NCCL INFO AllReduce|comm 0x1 rank 0 nranks 2 cudaDev 0 |- Init COMPLETE"
    "|  rank      : 1 (local_rank: 1)\n|  exitcode  : -9 (pid: 1)|99999999999999999999"
    "|Running collective: CollectiveFingerPrint(SequenceNumber=3, OpType=BARRIER"
    '|failed (exitcode: -9) local_rank: 1 (pid: 7)|{"log":"|srun: error: n1: tasks 0-3: Killed'
    "|#1 started ranks:\n[0, 1] started X"
)


@given(
    st.lists(
        st.one_of(st.binary(max_size=60), st.sampled_from(PIECES.encode().split(b"|"))), max_size=40
    ).map(b"".join)
)
def test_no_input_raises(data: bytes) -> None:
    """Shuffled and broken pieces of logs never end in an exception."""
    for engine in ("auto", "words"):
        read_log(data, OOM, engine=engine)


def test_hundreds_of_ranks_that_say_the_same_are_all_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """What many ranks say once each is no storm, whatever stands before their names."""
    monkeypatch.setattr(reader, "OWN_PATTERNS", frozenset(WatchdogReader.wants))
    monkeypatch.setattr(matching, "STORM", 200)
    timeout = (
        "ProcessGroupNCCL.cpp:632] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=300, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) ran for "
        "600029 milliseconds before timing out."
    )
    logs = LogReader(())
    for prefix in ("[rank{0}]:[E1122 02:00:01.123456789 ", "{0}: 2026-11-22 02:00:01,123 [E] "):
        text = "".join((prefix + timeout).format(rank) + "\n" for rank in range(220))
        ranks = {fact.who.rank for fact in logs.read(document(text)) if isinstance(fact, Track)}
        assert ranks == set(range(220))


def test_one_rank_that_says_the_same_over_and_over_is_a_storm() -> None:
    """Only its first lines and its last are looked at, and the rest is counted."""
    text = "".join(f"[rank1]: {HIT} time {number}\n" for number in range(9000))
    hits = lines(text, r"CUDA out of memory")

    assert len(hits) < 40
    assert hits[0].text.endswith("time 0")
    assert hits[-1].text.endswith("time 8999")
    assert sum(line.count for line in hits) == 9000


def test_of_an_endless_line_a_megabyte_is_looked_at() -> None:
    """Each stretch would be taken apart anew; what follows on lines of its own is read."""
    words = [f"word{number}" for number in range(200)]
    text = "x ".join(words * 2_000) + "\n[rank2]: CUDA out of memory.\n"

    facts = read_log(text, *(rf"\b{word}x" for word in words), "CUDA out of memory")

    (gap,) = of(facts, Gap)
    assert "no end for more than 1 MiB" in gap.why
    assert 2 in {line.who.rank for line in of(facts, LogLine)}


def test_a_line_is_searched_once_by_each_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search tells every place at which a match may end; that is one line all the same."""
    asked: Counter[tuple[int, str]] = Counter()
    search = Matching.search

    def counted(self: Matching, number: int, text: str, line: Callable[[], int]) -> Match | None:
        asked[number, text] += 1
        return search(self, number, text, line)

    monkeypatch.setattr(Matching, "search", counted)
    line = "loading: the device was lost, failed and failed again, "
    text = line * 3 + "\nand was not found, which is an error of the device\n"
    read_log(text, r"the device.{0,99}fail\w*")

    assert asked
    assert max(asked.values()) <= 3  # to mend what is broken over lines, twice, and to read it
