"""When to ask why a job does not go on: a pure function from look to look.

Silence is the time since any sign of work. It is allowed for ``stalled_for`` seconds, and for three
times the longest silence that ended by itself. A rank that gave signs and gives none any more,
while others still do, is asked about later. A job that never gives signs is asked about now and
then. What a diagnosis answers decides: a job that it sees to move has moved.
"""

from typing import Literal

from whyhang.analyzer.facts import Record, replace
from whyhang.collectors.watch.look import Look

TIMES_LONGEST = 3.0
PARTLY = 5.0
"""Times the limit that single ranks may be silent while others give signs."""

MOST_PATIENT = 8.0
"""Times the limit that is waited at most where a diagnosis left it open or saw the job move."""

STIRRING = 0.3
"""Share of the usual stirs from which a job that gives no signs is taken to go on."""

BEFORE_KILL = 0.8
"""Part of the time until others end the job, after which it is asked about whatever was learnt."""

LAST_MINUTES = 90.0
"""Seconds before the end of its allocation in which a silent job is asked about early."""

BUSY = 2.0
"""Stirs per second from which a process is at work, or tries again and again."""

OFTEN = 3
"""Signs of a rank from which it counts as one that gives them."""

Move = Literal["none", "ask", "moved", "restarted", "over"]


class SilenceLimits(Record):
    """How long a job may be silent.

    ``killed_after``: seconds of silence after which a watchdog ends it. ``ends_at``: when its
    allocation ends, on the clock of the looks.
    """

    stalled_for: float = 120.0
    killed_after: float | None = None
    ends_at: float | None = None


class Signs(Record):
    """When one rank, or the job, gave its last sign, how often, and its longest pause."""

    last: float
    count: int = 0
    longest: float = 0.0


class Course(Record):
    """What is known of a job so far.

    ``factor`` stretches the limit while a diagnosis keeps it open. ``asked``: about this silence,
    before the kill or at the end of the allocation, too. ``reported``: a hang was that is not over;
    ``since_report`` counts looks with signs since. ``usual`` is how much it stirs as a rule per
    second; ``busy`` are those that stirred often since the look before.
    """

    look: Look
    moved_at: float
    longest: float = 0.0
    factor: float = 1.0
    reported: bool = False
    since_report: int = 0
    asked: frozenset[str] = frozenset()
    of: dict[str, Signs] = {}
    usual: float = 0.0
    stirred: bool = False
    busy: frozenset[str] = frozenset()
    asked_at: float = 0.0


class Step(Record):
    """What to do after a look, and why in words."""

    course: Course
    move: Move = "none"
    why: str = ""
    silent: float = 0.0


def begin(look: Look) -> Course:
    """Return what is known after the first look: the time before it counts for nothing."""
    return Course(look=look, moved_at=look.at, asked_at=look.at)


def limit(course: Course, limits: SilenceLimits) -> float:
    """Return how many seconds the job may be silent."""
    return max(limits.stalled_for, TIMES_LONGEST * course.longest) * course.factor


def after(course: Course, look: Look, limits: SilenceLimits) -> Step:
    """Return what to do after another look."""
    if look.over:
        return Step(course=replace(course, look=look), move="over", why=look.over)
    if _more_came(course.look.start, look.start):
        return Step(course=begin(look))
    if look.start != course.look.start:
        fresh = replace(begin(look), longest=course.longest)
        return Step(course=fresh, move="restarted", why="its ranks were started anew")
    before = course
    course = _seen(course, look)
    alarms = [words for words in look.alarms if words not in before.look.alarms]
    if before.reported:
        signs = course.since_report + (course.moved_at > before.moved_at)
        move: Move = (
            "moved" if signs >= OFTEN else "none"
        )  # a watchdog's last words are a sign, too
        return Step(course=replace(course, reported=signs < OFTEN, since_report=signs), move=move)
    silent = look.at - course.moved_at
    question, why = _question(course, limits, silent, alarms)
    if not question or question in course.asked:
        return Step(course=course, silent=silent)
    asked = course.asked | ({question} if question in {"kill", "end"} else frozenset())
    course = replace(course, asked=asked, asked_at=look.at)
    return Step(course=course, move="ask", why=why, silent=silent)


def _more_came(before: str, now: str) -> bool:
    """Return whether a start shows more ranks than before, and still all of those."""
    return set(before.split()) < set(now.split())


def _question(
    course: Course, limits: SilenceLimits, silent: float, alarms: list[str]
) -> tuple[str, str]:
    """Return why to ask now: a short name, and words; both empty where there is no reason."""
    look, allowed = course.look, limit(course, limits)
    if alarms:
        return "alarm", alarms[0]
    if silent >= allowed:
        return "silence", f"no sign of progress for {silent:.0f} s"
    kill = limits.killed_after
    if kill is not None and silent >= BEFORE_KILL * kill:
        return (
            "kill",
            f"no sign of progress for {silent:.0f} s; a watchdog ends it after {kill:.0f} s",
        )
    end = limits.ends_at
    if end is not None and end - look.at <= LAST_MINUTES and silent >= limits.stalled_for / 2:
        return "end", f"silent for {silent:.0f} s, and its allocation ends in {end - look.at:.0f} s"
    late = [who for who, signs in course.of.items() if _late(course, signs, allowed)]
    if late and look.at - course.asked_at >= allowed * PARTLY:
        return "partly", f"no sign of progress of {', '.join(sorted(late)[:4])} while others go on"
    blind = not any(signs.count >= OFTEN for signs in course.of.values())
    if blind and course.stirred and look.at - course.asked_at >= allowed * MOST_PATIENT / 2:
        return "blind", "nothing that it writes shows whether it goes on"
    return "", ""


def _late(course: Course, signs: Signs, allowed: float) -> bool:
    """Return whether one that gives signs has given none for long."""
    own = max(allowed * PARTLY, TIMES_LONGEST * signs.longest)
    return signs.count >= OFTEN and course.look.at - signs.last >= own


def _seen(course: Course, look: Look) -> Course:
    """Take in the signs of a look."""
    passed = max(1e-3, look.at - course.look.at)
    changed = {key[0] for key, number in look.signs.items() if course.look.signs.get(key) != number}
    of = dict(course.of)
    for who in {who for who, _ in look.signs}:
        signs = of.get(who) or Signs(last=course.moved_at)
        if who in changed:
            pause = look.at - signs.last if signs.count else 0.0
            signs = Signs(last=look.at, count=signs.count + 1, longest=max(signs.longest, pause))
        of[who] = signs
    stirs = sum(
        max(0, number - course.look.stirs.get(key, number)) for key, number in look.stirs.items()
    )
    rate = stirs / passed
    busy = frozenset(
        who
        for (who, what), number in look.stirs.items()
        if number - course.look.stirs.get((who, what), number) >= BUSY * passed
    )
    blind = not any(signs.count >= OFTEN for signs in of.values())
    stirred = stirs > 0 and rate >= STIRRING * course.usual
    course = replace(course, look=look, of=of, stirred=stirred, busy=busy)
    if changed or (blind and stirred):
        usual = rate if not course.usual else 0.8 * course.usual + 0.2 * rate
        return _moved(replace(course, usual=usual), look.at, learns=bool(changed))
    return course


def _moved(course: Course, at: float, *, learns: bool) -> Course:
    longest = max(course.longest, at - course.moved_at) if learns else course.longest
    return replace(
        course,
        moved_at=at,
        longest=longest,
        factor=1.0 if learns else course.factor,
        asked=frozenset(),
    )


def caught_up(course: Course, look: Look) -> Course:
    """Take a look as the last one, without what changed in it: asking stirs the processes, too.

    Signs are kept as they were, so that those that come meanwhile count at the next look.
    """
    return replace(course, look=replace(look, signs=course.look.signs))


Answer = Literal["moves", "works", "open", "nothing", "hangs"]
"""What a diagnosis says: it goes on; who holds the others up is at work; not known; nothing was
there to be diagnosed; it hangs."""


def answered(
    course: Course, answer: Answer, *, at: float, sure: bool = False
) -> tuple[Course, bool]:
    """Take in what a diagnosis says; return what is known now, and whether to raise a hang.

    Who is at work, or may be, gets four times as long. ``sure``: nothing is waited for, since an
    alarm, or the end of the job, stands behind the question.
    """
    if answer == "moves" or (answer == "nothing" and not sure):
        factor = min(MOST_PATIENT, course.factor * 2)
        return replace(course, moved_at=at, factor=factor, asked_at=at), False
    waits = answer == "works" or (answer == "open" and course.stirred)
    if waits and not sure and course.factor * 2 <= MOST_PATIENT / 2:
        return replace(course, factor=course.factor * 2, asked_at=at), False
    return replace(course, reported=True, since_report=0), True
