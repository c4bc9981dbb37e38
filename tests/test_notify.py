"""Reports that are sent: to whom it was asked for, with a failure that is an error at the end."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import ThreadingTCPServer
from typing import Any

import pytest

from whyhang.analyzer.cli import main
from whyhang.analyzer.commands import notify
from whyhang.analyzer.exports.messages import MESSAGES, lines
from whyhang.analyzer.report import Captured, Evidence, Finding, Job, RankRow, Report, to_json
from whyhang.analyzer.reports.outgoing import outgoing

REPORT = Report(
    verdict="hung",
    headline="Rank 1 has not reached <all_reduce> & sleeps @here.",
    job=Job(world_size=8, hosts=("n1", "n2", "n3", "n4", "n5"), run_id="Slurm job 4711"),
    ranks=(RankRow(rank=1, host="n4", pid=7, state="blocked", activity="asleep", name="rank 1"),),
    captured=Captured(first=1795935852.25, last=1795935853.5, looks=2),
    findings=(
        Finding(
            signature="missing-rank",
            category="missing-rank-in-collective",
            confidence=0.9,
            title="t",
            explanation="because of --token=abcdef0123456789",
            culprit_ranks=(1,),
            evidence=(Evidence(source="log", quote="password=hunter2secret"),),
            remedies=("Look at it.", "Then [mend](http://evil) it.", "third"),
            runbook_url="https://runbooks/1",
        ),
    ),
)


class Server:
    """Takes what is posted, on loopback."""

    def __init__(self) -> None:
        self.got: list[tuple[str, dict[str, str], Any]] = []
        self.answer = 200
        self.hold = threading.Event()
        self.hold.set()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.got.append((self.path, dict(self.headers), json.loads(body)))
                outer.hold.wait(10)
                self.send_response(outer.answer)
                if outer.answer == 302:
                    self.send_header("Location", "/elsewhere")
                self.end_headers()

            do_GET = do_POST  # noqa: N815 - as the server calls it

            def log_message(self, *_: object) -> None:
                """Say nothing."""

        self.http = ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}/hook/secretpath"
        threading.Thread(target=self.http.serve_forever, args=(0.01,), daemon=True).start()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """Run a server, with no token and no proxy set."""
    for name in ("GITHUB_TOKEN", "GITLAB_TOKEN", notify.TOKEN, "http_proxy", "HTTP_PROXY"):
        monkeypatch.delenv(name, raising=False)
    made = Server()
    yield made
    made.hold.set()
    made.http.shutdown()
    made.http.server_close()


@pytest.fixture
def kept(tmp_path: Path) -> str:
    """Keep the report in a file."""
    path = tmp_path / "r.json"
    path.write_bytes(to_json(REPORT))
    return str(path)


@pytest.mark.parametrize("kind", MESSAGES)
def test_each_kind_is_posted_as_its_receiver_takes_it(
    kind: str, server: Server, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without the secrets that the evidence holds."""
    assert main(["show", kept, "--notify", f"{kind}:{server.url}"]) == 0

    [(path, headers, body)] = server.got
    assert path == "/hook/secretpath"
    assert headers["Content-Type"] == "application/json"
    assert "hunter2" not in json.dumps(body)
    assert "not told" not in capsys.readouterr().err
    match kind:
        case "json":
            assert body["verdict"] == "hung"
        case "slack":
            assert "&lt;all_reduce&gt; &amp; sleeps" in body["text"]
        case "teams":
            [card] = [each["content"] for each in body["attachments"]]
            texts = [block["text"] for block in card["body"]]
            assert texts[0].startswith("HUNG: Rank 1")
            assert any(r"\[mend\]" in text for text in texts)
        case "alertmanager":
            [alert] = body
            assert alert["labels"]["alertname"] == "whyhang"
            assert alert["labels"]["severity"] == "critical"
            assert alert["annotations"]["runbook_url"] == "https://runbooks/1"
            assert alert["labels"]["job"] == "Slurm job 4711"
            assert alert["labels"]["instance"] == "n4"  # where rank 1 is
            assert "rank 1 on n4" in alert["annotations"]["description"]
            assert "looked at 2026-11-29 07:04:12 UTC" in alert["annotations"]["description"]
        case "github" | "gitlab":
            assert body["body"].startswith("**HUNG**")


def test_tokens_and_addresses_come_from_the_environment(
    server: Server, kept: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that no secret stands on a command line; each in the header that its receiver reads."""
    monkeypatch.setenv("GITHUB_TOKEN", "one")
    monkeypatch.setenv("GITLAB_TOKEN", "two")
    monkeypatch.setenv("HOOK", server.url)
    arguments = [f"--notify={each}" for each in ("github:$HOOK", "gitlab:${HOOK}", "slack:$HOOK")]
    assert main(["show", kept, *arguments]) == 0

    headers = [headers for _, headers, _ in server.got]
    assert {each.get("Authorization") for each in headers} == {"Bearer one", None}
    assert {each.get("Private-Token") for each in headers} == {"two", None}


@pytest.mark.parametrize("code", [302, 404, 500])
def test_what_fails_is_an_error_and_costs_nothing_else(
    code: int, server: Server, kept: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The report is written and shown; the address, which may be a secret, is not repeated."""
    server.answer = code
    file = tmp_path / "o.md"
    arguments = ["-o", str(file), "--notify", f"slack:{server.url}", "--exit-code"]
    assert main(["show", kept, *arguments]) == 1

    out, err = capsys.readouterr()
    assert "HUNG" in out
    assert f"slack at 127.0.0.1 was not told: it answered {code}" in err
    assert "secretpath" not in err
    assert len(server.got) == 1  # a redirection is not followed
    assert file.is_file()


def test_nobody_listens(kept: str, server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    """A refused connection is no different."""
    server.http.shutdown()
    server.http.server_close()

    assert main(["show", kept, "--notify", f"json:{server.url}"]) == 1
    err = capsys.readouterr().err
    assert "ConnectionRefusedError" in err
    assert "secretpath" not in err


def test_who_does_not_answer_is_not_waited_for(
    server: Server, kept: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A deadline holds for all of it."""
    server.hold.clear()
    monkeypatch.setattr(notify, "DEADLINE", 0.2)

    assert main(["show", kept, "--notify", f"teams:{server.url}"]) == 1
    assert "teams at 127.0.0.1 was not told" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text", ["https://x", "irc:https://x", "slack:", "slack:ftp://x/secret", "slack:$NOT_SET_1"]
)
def test_what_is_no_receiver_is_refused_before_any_work(
    text: str, kept: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """And not repeated either."""
    assert main(["show", kept, "--notify", text]) == 2

    out, err = capsys.readouterr()
    assert out == ""
    assert "--notify" in err
    assert "secret" not in err


def test_a_long_report_fits_a_comment() -> None:
    """What is folded goes first, so that no fold stays open."""
    long = Report(
        verdict="hung", headline="x", job=Job(), notes=tuple(f"note {n} " * 40 for n in range(900))
    )
    body = json.loads(MESSAGES["github"].body(long))["body"]

    assert len(body) <= 65_536
    assert body.count("<details>") == body.count("</details>")


def test_a_chat_reads_few_lines() -> None:
    """The answer, how sure, two things to do, where."""
    few = lines(outgoing(REPORT))

    assert few[1] == "missing-rank-in-collective, 90% sure, rank 1 on n4"
    assert few[-1] == (
        "Slurm job 4711 · 8 ranks on n1, n2, n3 and 2 more · "
        "looked at 2026-11-29 07:04:12 UTC, 2 looks in 1.2 s"
    )
    assert len(few) == 6
