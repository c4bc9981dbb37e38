"""Ranks say that they waited in vain; others speak in the logs and say no such thing."""

from collections.abc import Iterable, Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.facts import LogLine
from whyhang.analyzer.queries import Case, Hit, Signature, Verdict
from whyhang.analyzer.rank_state.gave_up import gave_up, silent_beside
from whyhang.analyzer.rank_state.log_ends import own_line

MAX_QUOTES = 6
LONGEST = 80  # characters of a line in a title
WAITED = (r"Timed out waiting \d+ms for (?P<direction>recv|send) operation to complete",)
TIMED_OUT = (r"\[TC\]\[rank=\d+\]\[name=[^\]]*\] Operation timed out after",)
_NOTIFY = ("The wait execution of the Notify register times out",)  # of hccl-notify-timeout


def not_waiting(case: Case) -> Iterable[Hit]:
    return _not_among(case, case.job.lines_with(WAITED))


def log_without_timeout(case: Case) -> Iterable[Hit]:
    return queries.merged(
        _not_among(case, _timed_out(case), own_logs=True),
        _not_among(case, case.job.lines_with(TIMED_OUT), own_logs=True),
        _not_among(case, case.job.lines_with(_NOTIFY), own_logs=True),
    )


NOT_WAITING = Signature(
    id="rank-not-waiting",
    story="""\
All ranks but few waited in vain, and those few speak of something else.

gloo's messages do not say for whom a rank waited. Where all ranks write to the logs at hand, it is
the one that did not wait: it left the loop, skipped the call or does something else.
""",
    category="missing-rank-in-collective",
    level="wait",
    title="{who} did not come where {others} waited",
    when=not_waiting,
    patterns=WAITED,
    means=(
        "{others} waited for data until the limit. {who} also writes to these logs and says "
        "nothing of waiting, so it was elsewhere: it had left the loop or skipped the call."
    ),
    confidence="possible",
    remedies=(
        "Read what {who} does last: which call did it skip, or why had it ended its loop?",
        "Let every rank make the same collective calls, or agree on leaving the loop first.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
    matches=(
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed "
            "out waiting 1800000ms for recv operation to complete"
        ),
        (
            "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129] Timed out "
            "waiting 4000ms for send operation to complete"
        ),
    ),
    misses=("RuntimeError: DataLoader timed out after 60 seconds",),
)

LOG_WITHOUT_TIMEOUT = Signature(
    id="rank-log-without-timeout",
    story="""\
The watchdogs of all ranks but few gave up; the logs of those few end without a word of it.

Where every rank writes a log of its own, a watchdog that waits says so in it. A rank that says
nothing has no call open: it is in other code, is stopped, or its process was ended from outside.
""",
    category="missing-rank-in-collective",
    level="wait",
    title=(
        "{who} did not come to {call}, where {others} waited until the time-out; "
        "{its} last line is {line}"
    ),
    when=log_without_timeout,
    patterns=TIMED_OUT,
    means=(
        "The {watchdogs} of {others} gave up {call}. {who} has a log, too, and in it no "
        "watchdog waits, so the call was not made there: the rank was elsewhere, or gone."
    ),
    confidence="possible",
    remedies=(
        "Read the last lines of the log of {who}, and find what it does after them.",
        "If its process was ended: dmesg and the scheduler say by whom.",
    ),
    next_steps=("py-spy dump --pid PID  # of {who}, while it hangs",),
    matches=(
        (
            "[E1206 18:44:16.997991020 ProcessGroupNCCL.cpp:811] [TC][rank=3][name=0] Operation "
            "timed out after 600000 ms"
        ),
        "[TC][rank=0][name=0] Operation timed out after 600000 ms",
    ),
    misses=("[TC][rank=0][name=0] Timeout thread starting for rank: 0",),
)

SIGNATURES = (NOT_WAITING, LOG_WITHOUT_TIMEOUT)


def _not_among(case: Case, lines: list[LogLine], *, own_logs: bool = False) -> Iterator[Hit]:
    """Yield one hit for ranks that speak in the logs and not of waiting, as ``lines`` do.

    Only few may be missing among those who waited: the only other rank of two, or half as many.
    ``own_logs``: only ranks with a log of their own count, whose silence is no cut in an excerpt.
    """
    last = silent_beside(case.job, own_logs=own_logs)
    if not lines or not last:
        return
    waited, others = gave_up(case.job), sorted(last)
    calls = {str(each.call) for each in case.graph.calls.of(Verdict.WAITS_FOR_ABSENT) if each.call}
    line = own_line(case.job, last[others[0]])[:LONGEST]
    place = f"{last[others[0]].source.file}:{last[others[0]].source.line}"
    members, unseen = queries.members_of(case, others)
    last_words = [
        queries.cite(last[rank].source, last[rank].text, rank) for rank in others[:MAX_QUOTES]
    ]
    yield Hit(
        members=members,
        ranks=unseen,
        affected=tuple(sorted({m.id for line in lines if (m := case.job.member_of(line.who))})),
        evidence=(*(queries.cite_line(line) for line in lines[:2]), *last_words),
        fields={
            "who": queries.ranks_in_words(others),
            "others": queries.ranks_in_words(waited),
            "call": calls.pop() if len(calls) == 1 else "the call",
            "line": f"'{line}' ({place})",
            "watchdogs": "NPUs" if "Notify register" in lines[0].text else "NCCL watchdogs",
            "its": "its" if len(others) == 1 else f"of rank {others[0]} the",
        },
        at=min((line.time for line in lines if line.time is not None), default=None),
    )


def _timed_out(case: Case) -> list[LogLine]:
    """Return the lines in which a watchdog names the call it gave up."""
    places = {
        (track.source.file, track.source.line)
        for track in case.job.tracks
        if track.kind == "watchdog" and track.calls
    }
    return [line for line in case.job.lines if (line.source.file, line.source.line) in places]
