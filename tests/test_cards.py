"""Users' cards: read, tested with a line for each mistake, and used like any signature."""

from __future__ import annotations

import json
import os
import random
import sys
from collections import defaultdict
from pathlib import Path

import pytest

from whyhang import signatures
from whyhang.analyzer.cards.card import read_cards
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.cards.template import template
from whyhang.analyzer.cli import main
from whyhang.analyzer.findings.signature_toml import FIELDS, FORMER, signature_of
from whyhang.analyzer.queries.log import Blames, Log
from whyhang.analyzer.toml_lines import line_numbers

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parent.parent
CARD = template("~/.config/whyhang")
LINE = "acmefs: quota exceeded on /mnt/acme/run7 by rank 3"

Dumped = dict[str, object] | list[object] | object


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def changed(old: str, new: str, card: str = CARD) -> str:
    """Change one thing in the template; what is to be changed must be there."""
    assert old in card
    return card.replace(old, new, 1)


def written(folder: Path, text: str = CARD, name: str = "quota.toml") -> Path:
    """Write a card into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def named_by_card(text: str | bytes) -> dict[int | None, str]:
    """Check a card thoroughly and give its mistakes by line."""
    data = text if isinstance(text, bytes) else text.encode()
    texts: dict[int | None, str] = {}
    for card in read_cards("c.toml", data, thorough=True):
        for mistake in card.mistakes:
            texts[mistake.line] = f"{texts.get(mistake.line, '')}{mistake.text}\n"
    return texts


def line_of(text: str, part: str) -> int:
    """Give the line on which something stands in a card."""
    return text[: text.index(part)].count("\n") + 1


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run a diagnosis and give its JSON."""
    capsys.readouterr()
    assert main([*arguments, "--format", "json"]) == 0
    out: dict[str, object] = json.loads(capsys.readouterr().out)
    return out


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
def test_a_mistake_is_told_with_its_line(old: str, new: str, at: str, words: str) -> None:
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
    ],
)
def test_a_question_that_cannot_be_asked_is_told(question: str, words: str) -> None:
    """What stands in asks is a query with arguments that it has; anything else is a mistake."""
    text = changed("runbook_url", f"asks = [{question}]\nrunbook_url")

    assert words in named_by_card(text)[line_of(text, "\nasks") + 1]


ASKS = """\
id = "somebody-is-debugging"
category = "rank-stopped"
role = "cause"
title = "{who} {is} {does}, ask the owner of the job"
explanation = "Breakpoints of this team are left in on purpose."
asks = [{ query = "lagging", kinds = ["debugger"], alone = true }]
"""


@pytest.mark.parametrize(("sample", "count"), [("breakpoint-left-in", 1), ("healthy-job", 0)])
def test_a_card_may_ask_what_ranks_do(
    sample: str, count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a pattern: a query finds the ranks, and its fields fill the words."""
    card = written(tmp_path / "cards", ASKS)
    assert named_by_card(ASKS) == {}

    out = report(
        capsys, str(ROOT / "samples" / sample / "bundle.tar.zst"), "--cards", str(card.parent)
    )

    own = [f for f in out["findings"] if f["signature"] == "somebody-is-debugging"]
    assert len(own) == count
    assert all(f["title"].startswith("Rank 1 is at a breakpoint") for f in own)


def test_all_mistakes_are_told_at_once() -> None:
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


def test_a_pattern_that_finds_ordinary_lines_is_told() -> None:
    """A pattern that many lines of a healthy job match would make each log a finding."""
    text = changed("patterns = [\n", "patterns = [\n  '[a-z]+ \\d',\n")

    assert "ordinary lines" in named_by_card(text)[line_of(text, "'[a-z]")]


def test_a_pattern_that_takes_too_long_is_told() -> None:
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


def test_what_stands_beside_several_cards_is_told() -> None:
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
    table = {**tomllib.loads(CARD), "explanation": "\none\ntwo\n\n  three\nfour\n"}

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
def test_what_is_no_card_is_told(data: bytes, line: int, words: str) -> None:
    """Any bytes give a mistake with a line, never an exception."""
    texts = named_by_card(data)

    assert any(word in texts[line] for word in words.split("|"))


def test_lines_are_those_of_the_text() -> None:
    """Each value of a document with every kind of string and table is found on its line."""
    text = (
        'a = 1 # not "this\n"b c" = """x\n\\"" y = 2\n"""\nd.e = \'\'\'\n# no comment\'\'\'\n'
        "f = [ # first\n  'x, ]', # two\n  [1, 2], {g = \"}\", h = 'i'},\n]\n"
        "[t]\nu = 1979-05-27 07:32:00\n[[v]]\nw = 1\n[[v]]\nw = 2\n[v.x]\ny = true\n"
    )
    tomllib.loads(text)
    numbers = line_numbers(text)

    assert {path: line for path, line in numbers.items() if path[0] != "v"} == {
        ("a",): 1, ("b c",): 2, ("d",): 5, ("d", "e"): 5, ("f",): 7, ("f", 0): 8, ("f", 1): 9,
        ("f", 1, 0): 9, ("f", 1, 1): 9, ("f", 2): 9, ("f", 2, "g"): 9, ("f", 2, "h"): 9,
        ("t",): 11, ("t", "u"): 12,
    }  # fmt: skip
    assert numbers["v", 0, "w"] == 14
    assert numbers["v", 1, "w"] == 16
    assert numbers["v", 1, "x", "y"] == 18


def test_every_value_of_a_card_is_found() -> None:
    """The places of a document are exactly the keys and elements that its parser gives."""

    def paths(value: Dumped, path: tuple[str | int, ...] = ()) -> set[tuple[str | int, ...]]:
        items = (
            list(value.items())
            if isinstance(value, dict)
            else list(enumerate(value))
            if isinstance(value, list)
            else []
        )
        inner = [paths(item, (*path, key)) for key, item in items]
        return {path} - {()} | set().union(*inner)

    project = ROOT / "pyproject.toml"
    for text in (CARD, *([project.read_text(encoding="utf-8")] if project.is_file() else [])):
        assert set(line_numbers(text)) == paths(tomllib.loads(text))


@pytest.mark.parametrize("way", ["option", "configuration", "package"])
def test_a_card_is_used_wherever_it_is(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card speaks up in a diagnosis with its own words, rank and runbook, however it came in."""
    options = []
    if way == "option":
        options = ["--cards", str(written(tmp_path / "mine").parent)]
    elif way == "configuration":
        written(tmp_path / "config" / "whyhang" / "cards" / "team")
    else:
        written(tmp_path / "site" / "acme_cards" / "cards")
        (tmp_path / "site" / "acme_cards" / "__init__.py").write_text("raise SystemExit")
        points = tmp_path / "site" / "acme-1.0.dist-info" / "entry_points.txt"
        points.parent.mkdir()
        points.write_text("[whyhang.cards]\nacme = acme_cards.cards\n")
        points.with_name("METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
        monkeypatch.syspath_prepend(str(tmp_path / "site"))
    log = tmp_path / "job.log"
    log.write_text(f"[rank1]: {LINE}\n")

    answer = report(capsys, str(log), *options)

    (finding,) = answer["findings"]  # type: ignore[misc, str-bytes-safe, attr-defined]
    assert finding["signature"] == "acmefs-quota"
    assert finding["title"] == "Rank 3 ran out of quota on /mnt/acme/run7"
    assert finding["culprit_ranks"] == [3]
    assert finding["runbook_url"] == "https://wiki.example.org/runbooks/acmefs-quota"
    assert finding["evidence"][0]["line"] == 1
    assert main(["explain", "acmefs-quota", *options]) == 0
    assert "from the card" in capsys.readouterr().out
    assert main(["explain", *options]) == 0
    assert "[your card]" in capsys.readouterr().out
    assert main(["cards", *options]) == 0
    assert "quota.toml" in capsys.readouterr().out


@pytest.mark.parametrize("rank", ["9" * 30, "\u00b2", "x"])
def test_a_line_may_lie_about_its_rank(
    rank: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What a group called rank finds and is no rank blames nobody, and breaks nothing."""
    card = changed("(?P<rank>\\d+)", "(?P<rank>\\S+)")
    (tmp_path / "job.log").write_text(LINE.replace("rank 3", f"rank {rank}"), encoding="utf-8")

    answer = report(
        capsys, str(tmp_path / "job.log"), "--cards", str(written(tmp_path / "mine", card).parent)
    )

    assert answer["findings"][0]["signature"] == "acmefs-quota"  # type: ignore[index]
    assert answer["findings"][0]["culprit_ranks"] is None  # type: ignore[index]


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


def test_a_broken_card_costs_only_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A card with a mistake is named once in the report, with its line; the others work."""
    written(tmp_path / "mine")
    written(tmp_path / "mine", changed("by rank (", "by rank (("), "broken.toml")
    (tmp_path / "a.log").write_text(f"{LINE}\n")
    (tmp_path / "b.log").write_text(f"{LINE}\n")

    names = [str(tmp_path / "a.log"), str(tmp_path / "b.log")]
    answer = report(capsys, *names, "--cards", str(tmp_path / "mine"))

    gaps = [gap for gap in answer["gaps"] if "broken.toml" in gap]  # type: ignore[attr-defined]
    assert [f["signature"] for f in answer["findings"]] == ["acmefs-quota"]  # type: ignore[attr-defined]
    assert len(gaps) == 1
    line = line_of(CARD, "  'acmefs: quota")
    assert f"line {line}" in gaps[0]


def test_a_shipped_signature_is_replaced_only_on_purpose(tmp_path: Path) -> None:
    """A card with a shipped id is left out and named, unless it says ``override = true``."""
    name = signatures.load()[0].id
    text = changed("acmefs-quota", name)
    written(tmp_path / "silent", text)
    written(tmp_path / "explicit", changed("runbook_url", "override = true\nrunbook_url", text))

    silent, explicit = known([str(tmp_path / "silent")]), known([str(tmp_path / "explicit")])

    assert next(s for s in silent.signatures if s.id == name).origin == ""
    assert "override" in str(silent.gaps[0])
    assert next(s for s in explicit.signatures if s.id == name).origin.endswith("quota.toml")
    assert len(explicit.signatures) == len(signatures.load())
    assert explicit.gaps == ()


def test_of_two_cards_with_one_id_the_nearer_counts(tmp_path: Path) -> None:
    """The folder given on the command line comes before the user's own; the other is named."""
    written(tmp_path / "config" / "whyhang" / "cards")
    written(tmp_path / "mine")

    knowledge = known([str(tmp_path / "mine")])

    (own,) = [s for s in knowledge.signatures if s.id == "acmefs-quota"]
    assert own.origin == str(tmp_path / "mine" / "quota.toml")
    assert [gap for gap in knowledge.gaps if "comes first" in gap.why]
    assert len(known([str(tmp_path / "config" / "whyhang" / "cards")]).gaps) == 0


def test_names_of_other_signatures_are_checked(tmp_path: Path) -> None:
    """A card that outranks or replaces what does not exist says so, with its line, and works."""
    text = changed("runbook_url", 'outranks = [\n  "watchdog-timeuot"]\nrunbook_url')
    text = changed("outranks = [\n", "override = true\noutranks = [\n", text)
    written(tmp_path, text)

    (card,) = known([str(tmp_path)]).cards

    assert card.signature is not None
    assert {(m.line, m.text.partition(",")[0]) for m in card.mistakes} == {
        (
            line_of(text, "\noverride") + 1,
            'there is no signature "acmefs-quota" of whyhang to replace',
        ),
        (line_of(text, '\n  "watchdog') + 1, 'outranks names "watchdog-timeuot"'),
    }
    assert any('did you mean "watchdog-timeout"' in m.text for m in card.mistakes)


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


def test_a_runaway_pattern_is_cut_off_named_and_switched_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A pattern that explodes on a line costs a fifth of a second, once, and nothing else."""
    slow = changed("(?P<path>\\S+) by rank (?P<rank>\\d+)", "(?P<path>(a|aa)+)$")
    card = written(tmp_path / "mine", slow.partition("[examples]")[0])
    logs = tmp_path / "logs"
    logs.mkdir()
    text = f"acmefs: quota exceeded on {'a' * 5000}!\ntorch.OutOfMemoryError: CUDA out of memory.\n"
    for number in range(5):
        (logs / f"rank{number}.log").write_text(text)
    began = os.times().user
    report(capsys, str(logs))
    ordinary = os.times().user - began

    answer = report(capsys, str(logs), "--cards", str(card.parent))

    assert os.times().user - began - 2 * ordinary < 5 * 0.2
    gaps = [gap for gap in answer["gaps"] if "longer than" in gap]  # type: ignore[attr-defined]
    assert len(gaps) == 1
    assert str(card) in gaps[0]
    assert "rank0.log" in gaps[0]
    assert answer["findings"][0]["category"] == "gpu-oom"  # type: ignore[index]


def test_runbooks_come_from_the_configuration(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Links for shipped signatures stand in config.toml: by id, by category, or for all."""
    home = tmp_path / "config" / "whyhang"
    home.mkdir(parents=True)
    log = tmp_path / "job.log"
    log.write_text("torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB\n")

    (home / "config.toml").write_text(
        '[runbooks]\ngpu-oom = "https://w/oom"\ndefault = "https://w"'
    )
    first = report(capsys, str(log))["findings"][0]["runbook_url"]  # type: ignore[index]
    (home / "config.toml").write_text('[runbooks]\ndefault = "https://w#{category}"')
    other = report(capsys, str(log))["findings"][0]["runbook_url"]  # type: ignore[index]
    (home / "config.toml").write_text("[runbooks]\ngpu-oom = 3")
    wrong = report(capsys, str(log))

    assert (first, other) == ("https://w/oom", "https://w#gpu-oom")
    assert wrong["findings"][0]["runbook_url"] is None  # type: ignore[index]
    assert [gap for gap in wrong["gaps"] if "config.toml" in gap]  # type: ignore[attr-defined]


def test_a_configuration_that_cannot_be_seen_is_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of somebody else's, or a name that no file can have, keeps nothing from working."""
    monkeypatch.setenv("XDG_CONFIG_HOME", "/" + "x" * 300)

    knowledge = known()
    assert len(knowledge.signatures) == len(signatures.load())
    assert knowledge.gaps == ()
