"""What leaves the program: no control character, no secret, whichever face a report has."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from whyhang.analyzer.reports.outgoing import plain

CONTROLS = (
    "\x1b]0;owned\x07",  # the title of the terminal
    "\x1b]52;c;cm0gLXJmIC8=\x07",  # its clipboard
    "\x1b[2J\x1b[1;1H",  # an empty screen
    "\x9b31m",  # a sequence that begins with one C1 character
    "\r\x08\x08",  # written over what stands there
    "\u202etxt.exe\u2066",  # read from right to left
)
SECRETS = {
    "url": "postgres://svc:Vq7Lm2Xp@db1:5432/runs",
    "bearer": "Authorization: Bearer Vq7Lm2Xpabcd",
    "jwt": "eyJhbGciOiJIUzI1.eyJzdWIiOiIxMjM0.SflKVq7Lm2Xp",
    "variable": "WANDB_API_KEY=Vq7Lm2Xp",
    "option": "--hf-token Vq7Lm2Xp",
    "json": '{"password": "Vq7Lm2Xp"}',
    "literal": 'password = """Vq7Lm2Xp"""',
    "call": 'client.login("svc", "Vq7Lm2Xp")',
    "curl": "curl -u svc:Vq7Lm2Xp https://files/x",
    "account": "DefaultEndpointsProtocol=https;AccountKey=Vq7Lm2Xp8888==;",
    "signed url": "https://acct.blob/x?se=2026&sig=Vq7Lm2Xp%2B88",
    "hub": "hf_Vq7Lm2XpVq7Lm2XpVq7Lm2Xp",
    "aws": "AKIAVQ7LM2XPEXAMPLE1",
    "git": "ghp_Vq7Lm2XpVq7Lm2XpVq7Lm2Xp",
    "lab": "glpat-Vq7Lm2XpVq7Lm2Xp",
    "openai": "sk-proj-Vq7Lm2XpVq7Lm2Xp",
    "stripe": "sk_live_Vq7Lm2XpVq7Lm2Xp",
    "slack": "https://hooks.slack.com/services/T000/B000/Vq7Lm2Xp",
    "npm": "npm_Vq7Lm2XpVq7Lm2XpVq7Lm2XpVq7Lm2Xp1234",
    "sendgrid": "SG.Vq7Lm2XpVq7Lm2Xp.Vq7Lm2XpVq7Lm2Xp",
    "telegram": "bot123456789:AAVq7Lm2XpVq7Lm2XpVq7Lm2XpVq7Lm2Xp1",
}
MARK = "Vq7Lm2Xp"
RAISED = """\
[rank{rank}]: Traceback (most recent call last):
[rank{rank}]:   File "/srv/app/{name}.py", line 7, in {name}
[rank{rank}]:     {text}
[rank{rank}]: RuntimeError: {text}
"""


@pytest.mark.parametrize("control", CONTROLS)
def test_controls_are_spelt_out(control: str) -> None:
    assert plain(control).isprintable()


def test_words_and_lines_stay() -> None:
    text = "Überlauf → rank 3\n  in all_reduce (train.py:7)"
    assert plain(text) == text


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Plant everything in the logs of a job, and write each face of its report."""
    folder = tmp_path_factory.mktemp("planted")
    logs = folder / "logs\x1b]0;owned\x07"
    logs.mkdir()
    planted = (*SECRETS.values(), *CONTROLS)
    for rank, text in enumerate(planted):
        raised = RAISED.format(rank=rank, name=f"load{rank}", text=text)
        (logs / f"rank{rank}.log").write_text(raised, encoding="utf-8")
    said: dict[str, str] = {}
    for face in ("terminal", "markdown", "json"):
        command = [sys.executable, "-m", "whyhang", str(logs), "--full", "--format", face]
        done = subprocess.run(command, capture_output=True, timeout=120, check=True)
        said[face] = done.stdout.decode()
        said[f"{face}, what it says beside"] = done.stderr.decode()
    missing = [sys.executable, "-m", "whyhang", "/nowhere/\x1b]0;owned\x07"]
    said["an error"] = subprocess.run(missing, capture_output=True, timeout=60).stderr.decode()
    return said


def test_no_face_holds_a_control_character(faces: dict[str, str]) -> None:
    for face, text in faces.items():
        bad = {c for c in text if c != "\n" and not c.isprintable()}
        assert bad == set(), face


@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_of_this_kind_is_blanked(kind: str) -> None:
    assert MARK.lower() not in plain(SECRETS[kind]).lower()


def test_no_face_holds_a_secret(faces: dict[str, str]) -> None:
    assert {face for face, text in faces.items() if MARK.lower() in text.lower()} == set()


def test_the_report_still_quotes_what_was_raised(faces: dict[str, str]) -> None:
    """What is blanked is the secret alone."""
    report = json.loads(faces["json"])
    assert "postgres://svc:[redacted]@db1:5432/runs" in json.dumps(report)
    assert "load0.py:7" in faces["terminal"]
