"""What `whyhang cards check` finds in users' cards: a line for each mistake."""

from __future__ import annotations

import random
from collections import defaultdict
from pathlib import Path

import pytest
import tomli
from card_docs import CARD, ROOT, changed, line_of, named_by_card, written

from whyhang.analyzer.cards.card import read_cards
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.cli import main
from whyhang.analyzer.findings.signature_toml import FIELDS, FORMER, signature_of
from whyhang.analyzer.queries.logs.log import Blames, Log


def test_the_template_is_a_good_card() -> None:
    """What ``whyhang cards new`` prints passes ``whyhang cards check`` as it is."""
    assert named_by_card(CARD) == {}


def test_the_template_shows_every_field() -> None:
    """No field of a card is left for the reader to guess."""
    assert [path for path in FIELDS if path not in FORMER and path[-1] not in CARD] == []


@pytest.mark.repo
def test_the_card_in_the_docs_is_good() -> None:
    """The example in the docs passes ``whyhang cards check`` as it is."""
    text = (ROOT / "docs" / "cards.md").read_text(encoding="utf-8")
    (card,) = [part.partition("```")[0] for part in text.split("```toml\n")[1:]]

    assert named_by_card(card) == {}


@pytest.mark.parametrize(
    ("old", "new", "at", "words"),
    [
        ("category =", "catagory =", "catagory", 'unknown field "catagory"; did you mean'),
        ("storage-io-blocked", "storage-io-block", "category", "did you mean"),
        ('"cause" ', '"reason" ', "role =", "one of cause, consequence, noise"),
        ('id = "acmefs-quota"', 'id = "Acme Quota"', "id =", "joined by"),
        ('id = "acmefs-quota"', "id = 3", "id =", "a text in quotes"),
        ("by rank (?P<rank>", "by rank ((?P<rank>", "  'acmefs", "missing ) at position"),
        ("acmefs: quota exceeded on (?P<path>\\S+) by rank (?P<rank>\\d+)", "x*", "  'x*", "empty"),
        ("title = \"{who} ran", "title = \"{whom} ran", "title =", "{whom} cannot be filled in"),
        ("title = \"{who} ran", "title = \"{who.x} ran", "title =", "no plain name"),
        ("title = \"{who} ran", "title = \"{who ran", "title =", "braces"),
        ("match = [\"acmefs: quota ex", "match = [\"quota ex", "must_match", "no pattern"),
        ("quota at 91 % on", "quota exceeded on x by rank 3", "must_not_match", "must not"),
        ("remedies = [\"Raise", "remedies = [3, \"Raise", "remedies", "a list of texts"),
        ("runbook_url", "confidence = 3\nrunbook_url", "confidence = 3", "from 0 to 1"),
    ],
)  # fmt: skip
def test_a_mistake_is_reported_with_its_line(old: str, new: str, at: str, words: str) -> None:
    """Each single mistake in an otherwise good card is told, on the line it stands on."""
    text = changed(old, new)

    assert words in named_by_card(text)[line_of(text, "\n" + at) + 1]


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("'lock'", "a list of questions"),
        ("{ query = 'x' }", 'no query "x"'),
        ("{ query = 'absent' }", "missing a required argument: 'starting'"),
        ("{ query = 'lagging', kind = 3 }", 'no argument "kind"'),
        ("{ query = 'lagging', kinds = ['lok'] }", "lock"),
        ("{ query = 'lagging', kinds = 'lock' }", "a list"),
        ("{ query = 'lagging', op = 3 }", "a text in quotes"),
        ("{ query = 'lagging', alone = 3 }", "true or false"),
        ("{ query = 'faulty_gpus', fault = [] }", "lost, unreadable"),
        ("{ query = 'gpus_show' }", "missing a required argument: 'what'"),
        ("{ query = 'gpus_show', what = 'all' }", "wanted: all-spin, all-idle"),
        ("{ query = 'gpus_show', kind = 3 }", 'no argument "kind"; it has what'),
    ],
)
def test_a_question_that_cannot_be_asked_is_reported(question: str, words: str) -> None:
    """What stands in asks is a query with arguments that it has; anything else is a mistake."""
    text = changed("runbook_url", f"asks = [{question}]\nrunbook_url")

    assert words in named_by_card(text)[line_of(text, "\nasks") + 1]


def test_all_mistakes_are_reported_at_once() -> None:
    """A card with three mistakes is not mended in three rounds."""
    text = changed('"cause" ', '"reason" ')
    text = changed("(?P<rank>\\d+)", "(?P<rank>\\d+", text)
    text = changed("{who} ran", "{nobody} ran", text)

    assert len(named_by_card(text)) == 3


def test_a_card_without_examples_says_so_and_works() -> None:
    """Without examples nothing proves a pattern: a mistake, but the card is used."""
    text = CARD.partition("[examples]")[0]
    (card,) = read_cards("c.toml", text.encode())

    assert [m.text for m in card.mistakes if "no examples" in m.text]
    assert card.signature is not None


def test_each_pattern_needs_an_example_of_its_own() -> None:
    """A second pattern that no example shows is told on its line."""
    text = changed("patterns = [\n", "patterns = [\n  'acmefs gave up',\n")

    assert "no example" in named_by_card(text)[line_of(text, "'acmefs gave")]


def test_a_pattern_that_finds_ordinary_lines_is_reported() -> None:
    """A pattern that many lines of a healthy job match would make each log a finding."""
    text = changed("patterns = [\n", "patterns = [\n  '[a-z]+ \\d',\n")

    assert "ordinary lines" in named_by_card(text)[line_of(text, "'[a-z]")]


def test_a_pattern_that_takes_too_long_is_reported() -> None:
    """Nested repeats are tried on long lines and told before they meet one in a log."""
    text = changed("patterns = [\n", "patterns = [\n  'acme (a|aa)+$',\n")
    text = changed("must_match = [", "must_match = ['acme aaa', ", text)

    assert "takes longer" in named_by_card(text)[line_of(text, "'acme (a")]


def several(*cards: str) -> str:
    """Write cards into one text, each below ``[[signature]]``."""
    return "".join(
        "[[signature]]\n" + card.replace("[examples]", "[signature.examples]") for card in cards
    )


def test_a_file_holds_several_cards() -> None:
    """Each ``[[signature]]`` is a card of its own, with the lines of the file in its mistakes."""
    broken = changed('"cause" ', '"reason" ', changed("acmefs-quota", "other"))
    text = several(CARD, broken)

    first, second = read_cards("c.toml", text.encode(), thorough=True)

    assert first.signature is not None
    assert first.mistakes == ()
    assert second.signature is None
    assert [m.line for m in second.mistakes] == [line_of(text, '"reason"')]
    assert "missing" in named_by_card(text + "[[signature]]\n")[text.count("\n") + 1]


def test_what_stands_beside_several_cards_is_reported() -> None:
    """A field above the first ``[[signature]]`` belongs to none, and the cards work."""
    stray, card = read_cards("c.toml", f'role = "cause"\n{several(CARD)}'.encode())

    assert (stray.signature, stray.mistakes[0].line) == (None, 1)
    assert card.signature is not None
    assert "[[signature]]" in named_by_card("signature = 3\n")[1]
    assert "[[signature]]" in named_by_card("signature = []\n")[1]


def test_two_cards_of_one_file_have_ids_of_their_own(tmp_path: Path) -> None:
    """Of two cards with one id in a file the first counts, and the other is named."""
    knowledge = known([str(written(tmp_path, several(CARD, CARD)))])

    assert [s.id for s in knowledge.signatures if s.origin] == ["acmefs-quota"]
    assert "comes first" in str(knowledge.gaps[0])


def test_every_field_reaches_the_signature() -> None:
    """What only few cards say is read as well: who must say it, whom it blames, what it adds."""
    more = (
        "unless = ['acmefs: quota raised']\nunless_same_rank = true\nleast_ranks = 2\n"
        'ends_process = true\nblames = "speaker"\ncategory_if_everywhere = "not-distributed"\n'
        'gives_way = true\nrestarts = true\nstory = "A story"\n'
    )
    text = changed("runbook_url", f"{more}runbook_url")
    text += '[adds.rank]\n3 = { meaning = "the third" }\n'
    text = changed("{who} ran", "{meaning}: {who} ran", text)

    (card,) = read_cards("c.toml", text.encode(), thorough=True)

    assert card.mistakes == ()
    assert card.signature is not None
    assert (card.signature.everywhere, card.signature.story) == ("not-distributed", "A story")
    assert card.signature.level == "summary"  # what gives_way said
    assert card.signature.restarts
    when = card.signature.when
    assert isinstance(when, Log)
    assert (when.blames, when.least, when.ends_process) == (Blames.SPEAKER, 2, True)
    assert when.adds == {"rank": {"3": {"meaning": "the third"}}}
    assert when.vetoes == card.signature.vetoes == ("acmefs: quota raised",)
    assert when.veto_same_rank


def test_words_for_values_are_checked() -> None:
    """Words that no value of a group can bring are told with their line."""
    text = CARD + '[adds.code]\n3 = { meaning = "the third" }\n'

    assert "no pattern has a group" in named_by_card(text)[line_of(text, "\n[adds.code]\n") + 1]
    assert (
        "must be a table of words"
        in named_by_card(CARD + "[adds]\ncode = 3\n")[CARD.count("\n") + 1]
    )
    assert "at least 1" in named_by_card(f"least_ranks = 0\n{CARD}")[1]


def test_where_an_explanation_is_wrapped_does_not_show() -> None:
    """Lines of one paragraph are joined; an empty line begins another."""
    table = {**tomli.loads(CARD), "explanation": "\none\ntwo\n\n  three\nfour\n"}

    assert signature_of(table).means == "one two\n\nthree four"


@pytest.mark.parametrize(
    ("data", "line", "words"),
    [
        (b'id = "x\n', 1, "no TOML"),
        (b'id = "x"\nid = "y"\n', 2, "no TOML"),
        (b'id = "x"\npatterns = ["a \\d+"]\n', 2, "single quotes"),
        (b'id = "x"\n# \xff\n', 2, "UTF-8"),
        (b"a = " + b"[" * 20000, 1, "TOML|nested"),
        (b"", 1, "no card"),
        (b"[tool.ruff]\nline-length = 100\n", 1, "no card"),
        (b'id = "x"', 1, "missing"),
    ],
)
def test_what_is_no_card_is_reported(data: bytes, line: int, words: str) -> None:
    """Any bytes give a mistake with a line, never an exception."""
    texts = named_by_card(data)

    assert any(word in texts[line] for word in words.split("|"))


def test_any_text_can_be_checked() -> None:
    """Mangled cards give mistakes or a signature whose words can be filled in, never an error."""
    rng = random.Random(1)
    bits = ["'", '"', "'''", "[", "]", "{", "}", "=", "\n", "\\", "(", "*", "(?P<x>", "{}", "\0"]
    for number in range(600):
        text = CARD if number % 3 else several(CARD, CARD)
        for _ in range(rng.randint(1, 4)):
            at = rng.randrange(len(text))
            text = text[:at] + rng.choice(bits) + text[at + rng.choice([0, 1, 20]) :]
        for card in read_cards("c.toml", text.encode()):
            assert card.signature or card.mistakes
            for words in (card.signature.title, card.signature.means) if card.signature else ():
                words.format_map(defaultdict(str))


def test_check_ends_with_one_if_there_is_a_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """``cards check`` prints file, line and mistake as compilers do, and its exit code tells."""
    good = written(tmp_path, name="good.toml")
    bad = written(tmp_path, changed('"cause" ', '"reason" '), "bad.toml")

    assert main(["cards", "check", str(good)]) == 0
    assert main(["cards", "check", str(bad)]) == 1
    assert f"{bad}:{line_of(CARD, 'role =')}: unknown role" in capsys.readouterr().out
    assert main(["cards", "check", str(good), str(written(tmp_path, name="twin.toml"))]) == 1
    assert main(["cards", "check", str(tmp_path / "none.toml")]) == 2
    assert main(["cards", "check"]) == 2
