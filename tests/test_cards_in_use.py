"""Users' cards are used like any signature, and a bad one costs only itself."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from card_docs import CARD, ROOT, changed, line_of, named_by_card, written

from whyhang import signatures
from whyhang.analyzer.cards.load import known
from whyhang.analyzer.cli import main

LINE = "acmefs: quota exceeded on /mnt/acme/run7 by rank 3"


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


def report(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    """Run a diagnosis and give its JSON."""
    capsys.readouterr()
    assert main([*arguments, "--format", "json"]) == 0
    out: dict[str, object] = json.loads(capsys.readouterr().out)
    return out


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
