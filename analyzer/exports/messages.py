"""A report as the message that a chat, an alert manager or an issue tracker takes.

- Slack: https://docs.slack.dev/messaging/formatting-message-text (``&``, ``<``, ``>`` are escaped,
  so that nothing in evidence links or mentions anybody)
- Teams: an adaptive card, as Workflows take it
  (https://learn.microsoft.com/adaptive-cards/authoring-cards/card-schema); a text block shows
  Markdown, so what evidence says is escaped
- Alertmanager: https://prometheus.io/docs/alerting/latest/alerts_api
- GitHub, GitLab: the body of a comment, which is the Markdown of ``-o report.md``
"""

import html
import re
from collections.abc import Callable
from datetime import datetime, timezone
from typing import Any

import msgspec

from whyhang.analyzer.facts import Record, counted, listed, program, ranks_in_words
from whyhang.analyzer.report import Report, to_json
from whyhang.analyzer.reports import markdown
from whyhang.analyzer.reports.page import culprit_hosts, looked_line

MAX_TEXT = 2800  # characters of a chat's message; Slack cuts at 3,000
MAX_HOSTS = 4  # that a label names
MAX_BODY = 60_000  # characters of a comment; GitHub takes 65,536

_SEVERITY = {"hung": "critical", "failed": "critical", "slow": "warning", "inconclusive": "warning"}
_MARKS = re.compile(r"([\\`*_{}\[\]()#+\-.!|<>~@])")


class Message(Record):
    """How a report goes to one kind of receiver: its body, and the header that carries a token."""

    body: Callable[[Report], bytes]
    token: Callable[[str], tuple[str, str]] | None = None


def lines(report: Report) -> list[str]:
    """Return what a chat shows: the answer, whom to look at, what to do."""
    lines = [f"{report.verdict.upper()}: {report.headline}"]
    if report.findings:
        first = report.findings[0]
        sure = f"{first.category}, {first.confidence:.0%} sure"
        named, there = first.culprit_ranks, culprit_hosts(report)
        on = f" on {listed(there)}" if there else ""
        lines.append(f"{sure}, {ranks_in_words(named)}{on}" if named else sure)
        lines += first.remedies[:2]
        lines += [f"Runbook: {first.runbook_url}"] if first.runbook_url else []
    size, hosts = report.job.world_size, report.job.hosts or ()
    where = ", ".join(hosts[:3]) + (f" and {len(hosts) - 3} more" if len(hosts) > 3 else "")
    job = [counted(size, "rank") if size else "", f"on {where}" if where else ""]
    about = [job_name(report), " ".join(filter(None, job)), looked_line(report).rstrip(",")]
    return [*lines, " · ".join(filter(None, about))] if any(about) else lines


def job_name(report: Report) -> str:
    """Name the job: what its scheduler or launcher calls the run, else the program that runs."""
    job = report.job
    return job.run_id or (program(job.command) if job.command else "")


def _slack(report: Report) -> bytes:
    first, *rest = [html.escape(line, quote=False) for line in lines(report)]
    text = "\n".join([f"*whyhang* {first}", *(f"• {line}" for line in rest)])
    return msgspec.json.encode({"text": text[:MAX_TEXT]})


def _teams(report: Report) -> bytes:
    texts = [_MARKS.sub(r"\\\1", line[:MAX_TEXT]) for line in lines(report)]
    blocks: list[dict[str, Any]]
    blocks = [{"type": "TextBlock", "text": t, "wrap": True, "weight": "default"} for t in texts]
    blocks[0]["weight"] = "bolder"
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": blocks,
    }
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return msgspec.json.encode({"type": "message", "attachments": [attachment]})


def _alert(report: Report) -> bytes:
    first = report.findings[0] if report.findings else None
    labels = {
        "alertname": "whyhang",
        "verdict": report.verdict,
        "severity": _SEVERITY.get(report.verdict, "info"),
        "signature": first.signature if first else "",
        "category": first.category if first else "",
        "job": job_name(report),
        "instance": ", ".join(culprit_hosts(report)[:MAX_HOSTS]),
    }
    annotations = {"summary": report.headline, "description": "\n".join(lines(report)[1:])}
    if first is not None and first.runbook_url:
        annotations["runbook_url"] = first.runbook_url
    alert = {
        "labels": {name: value for name, value in labels.items() if value},
        "annotations": {name: text for name, text in annotations.items() if text},
        "startsAt": datetime.now(timezone.utc).isoformat(),
    }
    return msgspec.json.encode([alert])


def _comment(report: Report) -> bytes:
    text = markdown.render(report)
    if len(text) > MAX_BODY:  # cut whole: what is folded may not stay open
        text = text.partition("\n<details>")[0][:MAX_BODY] + "\n"
    return msgspec.json.encode({"body": text})


def _bearer(token: str) -> tuple[str, str]:
    return "Authorization", f"Bearer {token}"


MESSAGES: dict[str, Message] = {
    "json": Message(body=to_json, token=_bearer),
    "slack": Message(body=_slack),
    "teams": Message(body=_teams),
    "alertmanager": Message(body=_alert, token=_bearer),
    "github": Message(body=_comment, token=_bearer),
    "gitlab": Message(body=_comment, token=lambda token: ("PRIVATE-TOKEN", token)),
}
"""All kinds of receivers by the word before the colon of --notify."""
