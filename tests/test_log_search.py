"""The two search engines agree, and the cache of compiled patterns only ever saves time."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest
from log_docs import document, lines, read_log

from whyhang import signatures
from whyhang.analyzer.facts import Gap, LogLine, NcclSetup, replace
from whyhang.collectors import cache
from whyhang.collectors.logs import reader
from whyhang.collectors.logs.engine import hyperscan_search, matching, search
from whyhang.collectors.logs.engine import needle as log_needle
from whyhang.collectors.logs.engine.byte_blocks import Block
from whyhang.collectors.logs.engine.matching import last_of_each
from whyhang.collectors.logs.engine.needle import Needle
from whyhang.collectors.logs.engine.search import Searcher, searcher
from whyhang.collectors.logs.lines.readers import ONCE_A_BLOCK, OWN_PATTERNS
from whyhang.collectors.logs.reader import LogReader

pytestmark = pytest.mark.usefixtures("no_own_patterns")

PATTERNS = (
    r"Bus error",
    r"Unexpected bus error encountered in (?P<where>\w+)",
    r"(?i)no space LEFT",
    r"x\d+y",
    r"\w+ : \w+ argument is NULL",
    r"(?:one|three) of (?P<n>\d+)",
)
TEXT = "\n".join(
    [
        "[rank1]: ERROR: Unexpected bus error encountered in worker. Bus error",
        "OSError: No space left on device",
        "x1 y x12y",
        "AllReduce : comm argument is NULL",
        "two of 3, three of 4",
        "nothing here",
    ]
)


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _block(text: str) -> Block:
    data = text.encode()
    return Block(data + b"\n", start=0, stop=len(data), end=len(data), known=0, base=0)


def test_without_hyperscan_the_same_lines_match(monkeypatch: pytest.MonkeyPatch) -> None:
    """The fallback finds what Hyperscan finds, and a gap says that it is slow."""
    fast = lines(TEXT, *PATTERNS)
    monkeypatch.setattr(search, "HyperscanSearcher", None)
    facts = read_log(TEXT, *PATTERNS)
    records = (fact for fact in facts if isinstance(fact, LogLine))
    slow = [line for line in records if {*PATTERNS} & {*line.matched}]

    assert slow == fast
    assert len(fast) == 5
    assert any("Hyperscan" in fact.what for fact in facts if isinstance(fact, Gap))


def test_a_storm_of_hits_stops_a_search_in_a_thread() -> None:
    """More hits than asked for give None, so that the caller searches by itself."""
    scanner, _ = searcher(["hit\\d"])

    assert scanner.search(_block("hit1 hit2 hit3"), 2) is None
    assert len(scanner.search(_block("hit1 hit2"), 2) or ()) == 2


@pytest.mark.parametrize("engine", ["auto", "words"])
def test_patterns_that_stand_everywhere_give_one_hit_per_block(engine: str) -> None:
    """Where one hit is enough there is one, whatever words the pattern has."""
    scanner, _ = searcher(
        ["some words", ": mark ", "(?i)other"], once={": mark ", "(?i)other"}, engine=engine
    )
    hits = scanner.search(_block("a: mark b: mark c, some words, some words, OTHER other"))

    assert sorted(number for _, number in hits) == [0, 0, 1, 2]


def test_a_long_word_stands_for_its_pattern_until_it_is_everywhere() -> None:
    """Hits on a word that does not make a match are weeded out by the exact search."""
    pattern = r"some frequent words (?P<n>\d+) done"
    scanner, _ = searcher([pattern])
    block = _block("some frequent words x\n" * 3 + "some frequent words 7 done\n")

    assert len(scanner.search(block) or ()) == 4
    assert len(scanner.exact(block, 0) or ()) == 1


def test_a_pattern_without_any_word_is_named() -> None:
    """What neither engine can look for becomes a gap, and the others are still found."""
    facts = read_log("p 1\nabc\n", r"\p{Lu}\d", "abc")

    assert any("Lu" in fact.what for fact in facts if isinstance(fact, Gap))
    assert [f.text for f in facts if isinstance(f, LogLine)] == ["abc"]


def test_a_pattern_hyperscan_refuses_is_looked_for_by_its_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One expression that does not compile costs no other pattern."""

    def broken(pattern: str) -> Needle:
        needle = log_needle.needle_of(pattern)
        return replace(needle, expression=b"(") if "of" in pattern else needle

    monkeypatch.setattr(hyperscan_search, "needle_of", broken)

    assert [line.text for line in lines("one of 7\nx1y", r"(?:one|four) of \d", r"x\dy")] == [
        "one of 7",
        "x1y",
    ]


def test_compiled_patterns_are_loaded_from_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second run compiles nothing."""
    searcher(PATTERNS)
    monkeypatch.setattr(hyperscan_search, "_compiled", lambda _: pytest.fail("compiled again"))
    scanner, gaps = searcher(PATTERNS)

    assert gaps == ()
    assert scanner.search(_block("x12y"))


@pytest.mark.parametrize("damage", ["truncated", "garbage", "writable", "folder", "link"])
def test_a_damaged_cache_is_not_used(damage: str, tmp_path: Path) -> None:
    """Cut, overwritten, foreign-writable files, folders and links are passed over."""
    searcher(PATTERNS)
    (path,) = cache.folder(hyperscan_search.KIND).iterdir()
    data = path.read_bytes()
    if damage == "truncated":
        path.write_bytes(data[:100])
    elif damage == "garbage":
        path.write_bytes(b"\0" * len(data))
    elif damage == "writable":
        path.chmod(0o666)
    else:
        path.unlink()
        if damage == "folder":
            path.mkdir()
        else:
            (tmp_path / "elsewhere").write_bytes(data)
            path.symlink_to(tmp_path / "elsewhere")

    assert hyperscan_search.load(path.name) is None
    assert searcher(PATTERNS)[0].search(_block("x12y"))


def test_a_cache_that_cannot_be_written_costs_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file where the folder should be is no reason to fail."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))

    assert searcher(PATTERNS)[0].search(_block("x12y"))


def test_old_databases_are_forgotten_unless_they_are_in_use() -> None:
    """The cache does not grow with every change of the signatures."""
    searcher(["word in use"])
    (in_use,) = cache.folder(hyperscan_search.KIND).iterdir()
    for number in range(hyperscan_search.KEEP + 3):
        searcher([f"word number {number}"])
        searcher(["word in use"])

    files = list(cache.folder(hyperscan_search.KIND).iterdir())
    assert len(files) == hyperscan_search.KEEP
    assert in_use in files


def test_the_end_of_a_short_file_is_searched() -> None:
    """Hyperscan 5.4 misses some matches at the very end of 17 to 34 bytes; a reader may not."""
    for length in range(40):
        text = "." * length + "ad"

        assert [line.text for line in lines(text, "ab*d")] == [text]


@pytest.mark.parametrize("engine", ["auto", "words"])
def test_look_around_and_back_references_match_in_a_storm(engine: str) -> None:
    """What the search cannot tell is told by the pattern itself, however many lines look alike."""
    alike = "acme error ignored\nacme lost x\nfoo meets bar\n" * 5000
    needles = "acme error fatal\nacme lost 3\nfoo meets foo\n"
    patterns = (r"acme error (?!ignored)(?P<e>\w+)", r"(?<=lost )\d+", r"(\w+) meets \1")

    hits = lines(alike + needles + alike, *patterns, engine=engine)

    assert [line.text for line in hits] == needles.splitlines()


@pytest.mark.parametrize("engine", ["auto", "words"])
@pytest.mark.parametrize(
    ("pattern", "line"),
    [
        (r"(?<=x )\d+", "x 12"),
        (r"(?<=lost )\d+", "lost 12"),
        (r"(?=.*fatal)\d+", "3 is fatal"),
        (r"(\d)\1\1", "555"),
        (r"rank(?! 0)", "rank 1"),
        (r"(?<!a)b(?=c)", "bc"),
    ],
)
def test_look_around_matches_whatever_stands_beside_it(
    pattern: str, line: str, engine: str
) -> None:
    """Dropping look-around for the search never drops a line, with a word in it or without."""
    assert [hit.text for hit in lines(f"nothing\n{line}\n", pattern, engine=engine)] == [line]


def test_words_behind_a_place_are_looked_for() -> None:
    """A pattern that is vague without its look-behind is searched for by the words in it."""
    pattern = r"(?<=quota lost )\d+"
    scanner, gaps = searcher([pattern])

    assert log_needle.needle_of(pattern).expression is None
    assert log_needle.needle_of(r"(?<=quota )lost \d+").expression is not None
    assert gaps == ()
    assert scanner.search(_block("12 34 56\n" * 100)) == []
    assert len(scanner.search(_block("quota lost 7"))) == 1


def test_a_users_pattern_has_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pattern of a card whose word stands in every line ends, named with its card and line."""
    monkeypatch.setattr(matching, "ALL_SECONDS", 0.01)
    pattern = r"loss (?!\d)(?P<x>\w+)"
    text = "loss 1\n" * 20_000 + "loss nan\n"
    mine = LogReader([pattern, "loss nan"], owners={pattern: "mine.toml"})

    facts = list(mine.read(document(text)))

    (gap,) = [fact for fact in facts if isinstance(fact, Gap)]
    assert "mine.toml" in gap.what
    assert gap.source is not None
    assert gap.source.line is not None
    assert [f.matched for f in facts if isinstance(f, LogLine)] == [("loss nan",)]
    assert [f.matched for f in lines(text, pattern)] == [(pattern,)]


def test_the_last_line_of_each_speaker_is_read_from_both_ends() -> None:
    """Of what stands in each third line, what each speaker says last is found."""
    one, two = (
        "12:00:0{} node1:7 [0] frequent words 1\n",
        "12:00:0{} node2:7 [0] frequent words 2\n",
    )
    text = "".join(one.format(n) for n in range(9)) + "rare words\n" + two.format(1) * 9
    block = _block(text + one.format(7))

    def lines_of(most: int) -> tuple[list[int], int]:
        places, seen = last_of_each(block, b"frequent words", most)
        return [bytes(block.data).count(b"\n", 0, at) for at in places], seen

    assert lines_of(1000) == ([18, 19], 19)
    assert lines_of(6) == ([18, 19], 6)
    assert lines_of(2) == ([19], 2)


def test_lines_of_nccl_that_stand_everywhere_are_looked_at_to_the_last(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of a million channel lines the last one of a file still says how far NCCL came."""
    monkeypatch.setattr(reader, "OWN_PATTERNS", OWN_PATTERNS)
    line = "n1:{}:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
    text = line.format(1) * 20_000 + line.format(2) + line.format(1) * 20_000 + line.format(3)

    stages = [fact for fact in read_log(text) if isinstance(fact, NcclSetup)]

    assert {1, 3} <= {stage.who.pid for stage in stages}


EVERYWHERE = (
    "node1:4711:4800 [0] NCCL INFO Channel 05/1 : 0[0] -> 1[1] via P2P/CUMEM/read",
    "node1:4711:4800 [0] NCCL INFO AllReduce: opCount 4f sendbuff 0x7f recvbuff 0x7f count 1",
    "[default7]: iteration   124997/  999999 | time per iteration (s): 22.38 | loss: 4.6",
    "2025-07-04 11:02:33,123 - INFO - train - step 17 took 41.2 ms, data 0.3 ms",
    "[rank3]: Epoch 3/10:  42%|####2     | 1234/2930 [05:12<07:09,  3.95it/s, loss=2.31, lr=3e-4]",
    "{'loss': 1.8731, 'grad_norm': 0.913, 'learning_rate': 1.9e-05, 'epoch': 0.42}",
)  # fmt: skip


@functools.cache
def searcher_of_all() -> tuple[list[str], Searcher]:
    patterns = sorted(
        {pattern for s in signatures.load() for pattern in s.searched} | OWN_PATTERNS - ONCE_A_BLOCK
    )
    return patterns, searcher(patterns)[0]


@pytest.mark.parametrize("line", EVERYWHERE)
def test_no_pattern_matches_lines_that_stand_everywhere(line: str) -> None:
    """Each hit is told one by one: on lines by the million they would cost more than the search."""
    patterns, every = searcher_of_all()

    hits = every.search(_block(f"{line}\n" * 3))

    assert {patterns[number] for _, number in hits} == set()
