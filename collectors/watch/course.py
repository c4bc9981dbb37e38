"""What is seen of a job at one moment, and when to ask why it does not go on.

That is a pure function from look to look.

Silence is the time since any sign of work. It is allowed for ``stalled_for`` seconds, and for three
times the longest silence that ended by itself. A rank that gave signs and gives none any more,
while others still do, is asked about later. A job that never gives signs is asked about once
after that time, and then now and then. What a diagnosis answers decides: a job that it sees to move
has moved.
"""

from typing import Literal, Protocol

from whyhang.analyzer.facts import Record, replace

JOB = "the job"
"""Whose a sign is where it is no single rank's."""

TIMES_LONGEST = 3.0
PARTLY = 5.0
"""Times the limit that single ranks may be silent while others give signs."""

MOST_PATIENT = 8.0
"""Times the limit that is waited at most where a diagnosis left it open or saw the job move."""

BLINDLY = 4.0
"""Times the limit between two questions about a job that gives no signs, after the first."""

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


class Look(Record):
    """What was seen of a job at one moment. ``at`` is in seconds of a clock that never jumps.

    ``signs`` are counts that only work raises, by whose and what they are: steps noted, bytes of
    logs. ``stirs`` are counts that work raises and that some waits raise as well: context switches
    of a main thread, bytes read and written. CPU time is neither, for a wait may spin. ``alarms``
    are words for what shows by itself that the job is stuck. ``start`` differs from one start of
    the ranks to the next. ``over`` says how the job ended, once it has.
    """

    at: float
    signs: dict[tuple[str, str], int] = {}
    stirs: dict[tuple[str, str], int] = {}
    alarms: tuple[str, ...] = ()
    start: str = ""
    over: str = ""


class Looks(Protocol):
    """A job that can be looked at again and again."""

    @property
    def pids(self) -> tuple[int, ...]:
        """A process of it to diagnose, while there is one."""

    @property
    def paths(self) -> tuple[str, ...]:
        """What to read of it: of a folder, or the logs of processes that have ended."""

    def look(self) -> Look:
        """Look now; raises nothing for what a job does."""


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
    if set(course.look.start.split()) < set(look.start.split()):  # more ranks have come
        return Step(course=begin(look))
    if look.start != course.look.start:
        fresh = replace(begin(look), longest=course.longest)
        return Step(course=fresh, move="restarted", why="its ranks were started anew")
    before = course
    course = _seen(course, look)
    alarms = [words for words in look.alarms if words not in before.look.alarms]
    if before.reported:
        signs = course.since_report + (course.moved_at > before.moved_at)
        move: Move = "moved" if signs >= OFTEN else "none"  # a watchdog's last words are a sign
        return Step(course=replace(course, reported=signs < OFTEN, since_report=signs), move=move)
    silent = look.at - course.moved_at
    question, why = _question(course, limits, silent, alarms)
    if not question or question in course.asked:
        return Step(course=course, silent=silent)
    asked = course.asked | ({question} if question in {"kill", "end"} else frozenset())
    course = replace(course, asked=asked, asked_at=look.at)
    return Step(course=course, move="ask", why=why, silent=silent)


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
    late = [
        who
        for who, signs in course.of.items()
        if signs.count >= OFTEN
        and look.at - signs.last >= max(allowed * PARTLY, TIMES_LONGEST * signs.longest)
    ]
    if late and look.at - course.asked_at >= allowed * PARTLY:
        return "partly", f"no sign of progress of {', '.join(sorted(late)[:4])} while others go on"
    blind = not any(signs.count >= OFTEN for signs in course.of.values())
    patience = 1.0 if course.factor == 1.0 else BLINDLY  # it may have hung before the first look
    if blind and course.stirred and look.at - course.asked_at >= allowed * patience:
        return "blind", "nothing that it writes shows whether it goes on"
    return "", ""


def _seen(course: Course, look: Look) -> Course:
    """Take in the signs of a look."""
    passed, before = max(1e-3, look.at - course.look.at), course.moved_at
    changed = {key[0] for key, number in look.signs.items() if course.look.signs.get(key) != number}
    of = dict(course.of)
    for who in {who for who, _ in look.signs}:
        signs = of.get(who) or Signs(last=course.moved_at)
        if who in changed:
            pause = look.at - signs.last if signs.count else 0.0
            signs = Signs(last=look.at, count=signs.count + 1, longest=max(signs.longest, pause))
        of[who] = signs
    more = {key: n - course.look.stirs.get(key, n) for key, n in look.stirs.items()}
    stirs = sum(max(0, number) for number in more.values())
    rate = stirs / passed
    busy = frozenset(who for (who, _), number in more.items() if number >= BUSY * passed)
    blind = not any(signs.count >= OFTEN for signs in of.values())
    stirred = stirs > 0 and rate >= STIRRING * course.usual
    course = replace(course, look=look, of=of, stirred=stirred, busy=busy)
    if changed or (blind and stirred):
        usual = rate if not course.usual else 0.8 * course.usual + 0.2 * rate
        course = replace(course, usual=usual, moved_at=look.at, asked=frozenset())
    if changed:
        longest = max(course.longest, look.at - before)
        course = replace(course, longest=longest, factor=1.0)
    return course


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
