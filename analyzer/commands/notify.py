"""The option --notify: send the report to a chat, an alert manager or an issue.

Thin: one POST, no library. Nothing is sent unless it is asked for; what cannot be sent is an error
when everything else is done, as a file that cannot be written is. An address may be a secret by
itself (webhooks are), so it is taken from the environment where it says so, and no message repeats
more of it than its host.
"""

import argparse
import os
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

from whyhang import __version__
from whyhang.analyzer.errors import TargetError, WhyhangError
from whyhang.analyzer.exports.messages import MESSAGES
from whyhang.analyzer.facts import Record
from whyhang.analyzer.report import Report
from whyhang.analyzer.reports.outgoing import plain

DEADLINE = 15.0  # seconds that one receiver has, name look-up and all
TOKEN = "WHYHANG_NOTIFY_TOKEN"  # noqa: S105 - the name of a variable
_TOKENS = {"github": "GITHUB_TOKEN", "gitlab": "GITLAB_TOKEN"}
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")


class Receiver(Record):
    """Whom to tell: a kind of ``MESSAGES``, the address, and a token where one is set."""

    kind: str
    url: str
    token: str = ""

    @property
    def name(self) -> str:
        """What may be said of it."""
        return f"{self.kind} at {urlsplit(self.url).hostname}"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the option."""
    parser.add_argument(
        "--notify",
        action="append",
        default=[],
        metavar="KIND:URL",
        help=f"send the report: {', '.join(MESSAGES)}, and the address, or $NAME of a variable "
        f"that holds it; a token is read from {TOKEN}, GITHUB_TOKEN or GITLAB_TOKEN; "
        "may be repeated",
    )


def receivers(options: argparse.Namespace) -> list[Receiver]:
    """Read the option. Raises ``TargetError`` for what is none; its message repeats no address."""
    return [_receiver(text) for text in getattr(options, "notify", ())]


def _receiver(text: str) -> Receiver:
    kind, _, url = text.partition(":")
    if kind not in MESSAGES:
        raise TargetError(
            f"--notify does not know {plain(kind[:20])!r}",
            f"Write KIND:URL, with one of {', '.join(MESSAGES)}.",
        )
    if variable := _VARIABLE.fullmatch(url):
        url = os.environ.get(variable[1], "")
        if not url:
            raise TargetError(f"--notify {kind}: the variable {variable[1]} is not set", "Set it.")
    try:
        parts = urlsplit(url.strip())
        good = parts.scheme in {"http", "https"} and bool(parts.hostname)
    except ValueError:
        good = False
    if not good or any(letter.isspace() or not letter.isprintable() for letter in url.strip()):
        raise TargetError(
            f"--notify {kind}: the address is no http or https URL", "Write KIND:https://..."
        )
    names = (TOKEN, _TOKENS.get(kind, ""))
    token = next((value for name in names if (value := os.environ.get(name, "").strip())), "")
    return Receiver(kind=kind, url=url.strip(), token=token)


def send_all(report: Report, to: Sequence[Receiver]) -> list[WhyhangError]:
    """Send a report, which has gone through the gate, to all at once; return what failed."""
    running = [_Sending(each, report) for each in to]
    failed = [(each.to.name, why) for each in running if (why := each.finish())]
    remedy = "`whyhang show REPORT.json --notify ...` sends a report that was kept."
    return [
        WhyhangError(f"--notify: {name} was not told: {plain(why)}", remedy) for name, why in failed
    ]


class _Sending:
    """One message under way, in a thread that nobody waits for beyond the deadline."""

    def __init__(self, to: Receiver, report: Report) -> None:
        self.to = to
        self._why = ""
        self._thread = threading.Thread(target=self._work, args=(report,), daemon=True)
        self._thread.start()

    def _work(self, report: Report) -> None:
        try:
            send(self.to, MESSAGES[self.to.kind].body(report))
        except urllib.error.HTTPError as error:
            self._why = f"it answered {error.code}"
        except (OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            self._why = f"{type(reason).__name__}: {reason}".replace(self.to.url, "its address")

    def finish(self) -> str:
        """Return why it failed, "" where it did not."""
        self._thread.join(DEADLINE)
        return f"no answer within {DEADLINE:g} s" if self._thread.is_alive() else self._why


def send(to: Receiver, body: bytes) -> None:
    """POST a body. Raises ``OSError`` or ``ValueError``; a redirection is an error, too."""
    headers = {"Content-Type": "application/json", "User-Agent": f"whyhang/{__version__}"}
    carried = MESSAGES[to.kind].token
    if to.token and carried is not None:
        name, value = carried(to.token)
        headers[name] = value
    request = urllib.request.Request(to.url, data=body, headers=headers, method="POST")  # noqa: S310 - http(s) only
    opener = urllib.request.build_opener(_NoRedirects)
    with opener.open(request, timeout=DEADLINE) as answer:
        answer.read(1 << 16)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses to carry a report, or a token, to where an answer points."""

    def redirect_request(self, *arguments: Any, **_: Any) -> NoReturn:
        request, _, code, text, headers, _ = arguments
        raise urllib.error.HTTPError(request.full_url, code, text, headers, None)
