"""Who should give what a rank waits for in its own process: its threads and child processes."""

import re
from collections.abc import Sequence

from whyhang.analyzer.case import Case
from whyhang.analyzer.facts import Frame, grouped, replace
from whyhang.analyzer.rank_state.state import RankState
from whyhang.analyzer.stacks import WaitKind
from whyhang.analyzer.stacks.kinds import last_name
from whyhang.analyzer.stacks.usercode import in_words
from whyhang.analyzer.wording.describe import MOST_PLACES, awaited_children, quoted

_PUTS = re.compile(r"\.put(?:_nowait)?\(")
_AWAITS_ITEM = re.compile(r"(?:\bawait\b|\brun(?:_until_complete)?\().*\.get\(")
_RELEASES = re.compile(r"\.release\(")
_MARKS = re.compile(r"\.task_done\(")


def fillers_in_words(case: Case, members: Sequence[int]) -> str:
    """Name the lines that fill a queue or give back a lock, where the first member waits for that.

    Those in the file where it does so, if they are few; they tell whose thread or task has ended,
    or what an error has led past.
    """
    state = case.states[members[0]]
    place = state.place
    if place is None or place.user is None:
        return ""
    line = case.text(place.user) or ""
    if place.kind is WaitKind.LOCK and ".acquire(" in line:
        named = _lines_with(case, place.user, _RELEASES)
        back = f" It is given back by {named}: whoever takes it must come there,"
        return f"{back} after an error, too." if named else ""
    if place.kind is WaitKind.IDLE and _AWAITS_ITEM.search(line):
        named = _lines_with(case, place.user, _PUTS)
        filled = f" The queue is filled by {named}: a task that has ended fills it no more."
        return filled if named else ""
    if place.kind is not WaitKind.QUEUE:
        return ""
    if place.frame is not None and last_name(place.frame) == "join" and ".join(" in line:
        named = _lines_with(case, place.user, _MARKS)
        done = f" Items are marked as done by {named}: whoever takes one must come to it,"
        return f"{done} after an error, too." if named else ""
    named = _lines_with(case, place.user, _PUTS)
    if not named or ".get(" not in line or not is_left_alone(case, state):
        return ""
    return f" No thread is left that could come to {named}: look in the log for how it ended."


def _lines_with(case: Case, user: Frame, pattern: re.Pattern[str]) -> str:
    """Quote the lines of a frame's file that hold a pattern; empty where they are none or many."""
    numbers = {
        number
        for excerpt in case.job.excerpts
        if excerpt.file == user.file
        for number, line in enumerate(excerpt.lines, excerpt.first_line)
        if pattern.search(line)
    }
    few = sorted(numbers) if len(numbers) <= MOST_PLACES else ()
    return " or ".join(quoted(replace(user, line=number), case.text) for number in few)


def is_left_alone(case: Case, state: RankState) -> bool:
    """Return whether a member waits at a queue of its own threads, and has no other thread."""
    place, member = state.place, case.member(state.member)
    if place is None or place.kind is not WaitKind.QUEUE or not (member.processes and member.dumps):
        return False
    own = place.frame is not None and place.frame.file.rpartition("/")[2] == "queue.py"
    last = member.dumps[-1]
    return own and not last.main_only and len(last.threads) == 1


def children_in_words(case: Case, members: Sequence[int]) -> str:
    """Say where the child processes stand of the first member, which waits for one of them.

    Who should put into a queue or notify is one of them, and may itself wait for the member.
    """
    state = case.states[members[0]]
    standing = grouped(
        awaited_children(case, state),
        lambda each: (str(each[1].says), in_words(each[1].user) if each[1].user else ""),
    )
    words = []
    for (says, where), theirs in list(standing.items())[:MOST_PLACES]:
        pids = ", ".join(str(child.pid) for child, _ in theirs)
        words.append(f"{pids} {'are' if len(theirs) > 1 else 'is'} {says} at {where}")
    name = case.member(state.member).name
    return f" Of the child processes of {name}, {'; '.join(words)}." if words else ""
