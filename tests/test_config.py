"""whyhang.toml: where it stands, what counts more, what it changes, each mistake with its line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from small_jobs import ALL_REDUCE, ELSEWHERE, report_of, still

from whyhang.analyzer.cli import main
from whyhang.analyzer.configuration.settings import SettingInUse, Settings
from whyhang.analyzer.report import to_json
from whyhang.signatures import load

LOG = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB\n"


@pytest.fixture(autouse=True)
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """Give the places of configuration: the user's folder, the working directory, another."""
    here, home, elsewhere = (tmp_path / name for name in ("here", "home", "elsewhere"))
    for folder in (here, home / "whyhang", elsewhere):
        folder.mkdir(parents=True)
    (here / "rank0.log").write_text(LOG)
    report = report_of(still({0: ALL_REDUCE, 1: ALL_REDUCE, 2: ELSEWHERE}))
    (here / "kept.json").write_bytes(to_json(report))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home))
    monkeypatch.delenv("WHYHANG_CONFIG", raising=False)
    monkeypatch.chdir(here)
    return {
        "former": home / "whyhang" / "config.toml",
        "user": home / "whyhang" / "whyhang.toml",
        "here": here / "whyhang.toml",
        "named": elsewhere / "team.toml",
    }


def finding(capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, object]:
    """Diagnose the log and give the first finding."""
    assert main(["rank0.log", "--format", "json", *more]) == 0
    first: dict[str, object] = json.loads(capsys.readouterr().out)["findings"][0]
    return first


def test_findings_have_links_owners_and_remedies(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """By signature before category before default; own remedies stand first."""
    before = finding(capsys)
    places["user"].write_text(
        '[runbooks]\ndefault = "https://w/{category}"\n'
        '[owners]\ngpu-oom = "memory team"\ndefault = "somebody"\n'
        '[remedies]\ngpu-oom = ["Ask the memory team."]\ndefault = "Keep the logs."\n'
    )
    after = finding(capsys)
    assert after["runbook_url"] == "https://w/gpu-oom"
    assert (before["owner"], after["owner"]) == (None, "memory team")
    old, new = before["remedies"], after["remedies"]
    assert isinstance(old, list)
    assert new == ["Ask the memory team.", "Keep the logs.", *old]
    main(["rank0.log", "--format", "terminal"])
    assert "Owner: memory team" in capsys.readouterr().out


def test_what_is_signature_and_category_is_reported_once() -> None:
    """Some signatures are called like their category."""
    signature = next(each for each in load() if each.id == each.category == "dataloader-blocked")
    said = SettingInUse(table="remedies", key=signature.id, value=("Ask storage.",), file="")
    advised = Settings(entries=(said,)).advise(signature)
    assert advised.remedies == ("Ask storage.", *signature.remedies)


def test_the_nearer_place_counts_more(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """config.toml, the user's whyhang.toml, the working directory's, the one that is named."""
    seen = []
    for name in ("former", "user", "here", "named"):
        places[name].write_text(f'[owners]\ngpu-oom = "{name}"\n')
        more = ["--config", str(places["named"])] if name == "named" else []
        seen.append(finding(capsys, *more)["owner"])
    assert seen == ["former", "user", "here", "named"]
    assert finding(capsys)["owner"] == "here"
    monkeypatch.setenv("WHYHANG_CONFIG", str(places["named"]))
    assert finding(capsys)["owner"] == "named"


def test_defaults_stand_before_what_is_typed(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a command and of all; an option of another command is no mistake."""
    places["here"].write_text(
        '[defaults]\nexit-code = true\nlooks = 3\n[defaults.show]\nformat = "json"\n'
    )
    assert main(["show", "kept.json"]) == 3
    assert json.loads(capsys.readouterr().out)["verdict"] == "hung"
    assert main(["show", "kept.json", "--format", "terminal"]) == 3
    captured = capsys.readouterr()
    assert captured.out.startswith(" HUNG ")
    assert captured.err == ""


def test_a_default_that_cannot_be_is_left_out(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """It is said with its line, and the command runs."""
    places["user"].write_text('[defaults]\nfull = "yes"\n[defaults.show]\nfromat = "json"\n')
    assert main(["show", "kept.json"]) == 0
    captured = capsys.readouterr()
    assert "HUNG" in captured.out
    assert f"{places['user']}:2: full must be true or false" in captured.err
    assert f"{places['user']}:4: show has no option --fromat" in captured.err


def test_the_working_directory_writes_and_undoes_nothing(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """A file that came with a repository makes no bundle, and takes no redaction back."""
    places["user"].write_text('[redaction]\nalways = true\nhide = ["train"]\n')
    places["here"].write_text(
        f'[redaction]\nalways = false\nkeep = ["train"]\nkey_file = "k"\n'
        f'[defaults]\nsave = "{tmp_path}/bundle"\nask-recorders = true\n'
    )
    assert main(["show", "kept.json"]) == 0
    assert "train.py" not in capsys.readouterr().out
    assert main(["rank0.log"]) == 0
    assert "--save counts in your own configuration" in capsys.readouterr().err
    assert not (tmp_path / "bundle").exists()


def test_a_team_shares_a_key(places: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> None:
    """Pseudonyms under a named key are those of everybody with that key, relative to the file."""
    places["named"].with_name("key").write_text("one key for all of us\n")
    places["named"].write_text('[redaction]\nkey_file = "key"\nhide = ["evaluate"]\n')
    shown = []
    for _ in range(2):
        assert main(["show", "kept.json", "--redact", "--config", str(places["named"])]) == 0
        shown.append(capsys.readouterr().out)
        places["user"].parent.joinpath("redact.key").unlink(missing_ok=True)
    assert shown[0] == shown[1]
    assert "evaluate.py" not in shown[0]


def test_folders_of_cards_are_relative_to_the_file(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Their cards are in use; a folder that is not there is said under what is not known."""
    cards = places["named"].with_name("cards")
    cards.mkdir()
    (cards / "own.toml").write_text(
        'id = "own"\ncategory = "gpu-oom"\nrole = "cause"\nlevel = "machine"\n'
        'title = "Ours"\nexplanation = "Ours."\npatterns = ["CUDA out of memory"]\n'
        '[examples]\nmust_match = ["CUDA out of memory"]\n'
    )
    places["named"].write_text('[cards]\nfolders = ["cards", "gone"]\n')
    main(["rank0.log", "--format", "json", "--config", str(places["named"])])
    report = json.loads(capsys.readouterr().out)
    assert "own" in {each["signature"] for each in report["findings"]}
    assert any("gone" in gap for gap in report["gaps"])


MISTAKES = {
    'runbooks = "x"': ("1: runbooks must be a table", 1),
    "[runbooks]\n\ngpu-oom = 3": ("3: runbooks.gpu-oom must be a text in quotes", 1),
    "[runbooks]\ngpu-omo = 'x'": ("2: there is no signature or category gpu-omo; did you mean", 1),
    "[ownres]\nx = 'y'": ("1: there is no table ownres; did you mean owners?", 1),
    "[redaction]\nalways = 'yes'": ("2: redaction.always must be true or false", 1),
    "[redaction]\nhides = []": ("2: there is no redaction.hides; did you mean hide?", 1),
    "[remedies]\ngpu-oom = [1]": ("2: remedies.gpu-oom must be a text or a list of texts", 1),
    "[cards]\nfolders = [\n  '.',\n  'nope',\n]": ("4: there is no folder", 1),
    "[defaults]\nlooks = 0": ("2: looks: must be a number between 1 and 100", 1),
    "[defaults]\nformat = 'word'": ("2: format must be one of terminal, markdown", 1),
    "[defaults]\nformta = 'json'": ("2: there is no option --formta; did you mean format?", 1),
    "[defaults.shwo]\nfull = true": ("there is no command shwo; did you mean show?", 1),
    "[defaults.show]\nlooks = 2": ("2: show has no option --looks", 1),
    "[owners]\n\n= 3": ("3: this is no TOML", 1),
    "[owners]\ngpu-oom = 'us'\n[defaults.diagnose]\nlooks = 2": ("good", 0),
}


@pytest.mark.parametrize("text", MISTAKES)
def test_each_mistake_is_reported_with_its_line(
    text: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """One line a mistake; the exit code says whether there is one."""
    says, code = MISTAKES[text]
    places["named"].write_text(text)
    assert main(["config", "check", str(places["named"])]) == code
    [line] = capsys.readouterr().out.splitlines()
    assert line.startswith(f"{places['named']}:")
    assert says in line


def test_no_mistake_ends_a_diagnosis(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever is wrong, the report is there; what is not used stands in it, options on stderr."""
    for text, (says, code) in MISTAKES.items():
        places["user"].write_text(text)
        assert main(["rank0.log", "--format", "json"]) == 0
        out, err = capsys.readouterr()
        report = json.loads(out)
        assert report["findings"]
        words = says.partition(": ")[2] or says
        printed = err if "defaults" in text else " ".join(report["gaps"])
        if "[defaults.show]" in text:
            assert (err, report["gaps"]) == ("", [])  # of a command that did not run
        elif code:
            assert words in printed, (text, printed)
            assert str(places["user"]) in printed
    places["user"].write_bytes(b"\xff\xfe" + bytes(99))
    assert main(["rank0.log"]) == 0
    assert "this is no UTF-8" in capsys.readouterr().out


def test_a_named_file_must_be_one(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Who names a file wants it used: without it, or with a broken one, nothing runs."""
    assert main(["rank0.log", "--config", "gone.toml"]) == 2
    assert "there is no configuration at gone.toml" in capsys.readouterr().err
    places["named"].write_text("x = ")
    assert main(["rank0.log", "--config", str(places["named"])]) == 2
    assert f"{places['named']}:1: this is no TOML" in capsys.readouterr().err


def test_what_is_in_use_is_shown_with_its_place(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Each value once, as TOML that could be read again, with the line that counts."""
    assert main(["config", "show"]) == 0
    assert "There is no configuration" in capsys.readouterr().out
    places["user"].write_text('[owners]\ngpu-oom = "a \\"b\\""\ndefault = "c"\n')
    places["here"].write_text('[owners]\n\ndefault = "d"\n[defaults.show]\nfull = true\n')
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f'gpu-oom = "a \\"b\\""  # {places["user"]}:2' in lines
    assert 'default = "d"  # whyhang.toml:3' in lines
    assert "show = { full = true }  # whyhang.toml:4" in lines


@pytest.mark.parametrize("text", MISTAKES)
def test_what_is_not_used_is_not_shown_as_used(
    text: str, places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """A value with a mistake stands behind "not used" alone; the others stay."""
    says, code = MISTAKES[text]
    places["user"].write_text('[runbooks]\ndefault = "x"\n')
    places["here"].write_text(text)
    assert main(["config", "show"]) == 0
    lines = capsys.readouterr().out.splitlines()
    used = [line for line in lines if "  # whyhang.toml:" in line]
    assert 'default = "x"' in "".join(lines)
    assert any(line.startswith("# not used: whyhang.toml:") for line in lines) is bool(code)
    expected = {"cards": ["folders"], "owners": ["gpu-oom", "diagnose"]}
    wanted = expected["cards"] if "nope" in text else [] if code else expected["owners"]
    assert [line.partition(" ")[0] for line in used] == wanted, says


def test_what_the_working_directory_may_not_say_is_not_shown_as_used(
    places: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither an option that writes nor a key of somebody else."""
    places["here"].write_text('[redaction]\nkey_file = "k"\n[defaults]\nsave = "b"\nfull = true\n')
    assert main(["config", "show"]) == 0
    out = capsys.readouterr().out
    assert "\nfull = true  # whyhang.toml:5\n" in out
    assert "key_file =" not in out
    assert "save =" not in out
    assert out.count("# not used: whyhang.toml:") == 2
