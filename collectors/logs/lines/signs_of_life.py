"""Signs of life in a log: steps, epochs, losses, progress bars, results, an orderly end.

A log of a job that never got beyond its start holds none of them. Only the beginning and the
end of a file are looked at: whoever trains says so at least there. The words of a scheduler and
of a rendezvous (job steps, rounds) are none. A number is taken from its first digit on only, or
thousands of digits in a row would take minutes.
"""

import re
from collections import Counter
from collections.abc import Sequence

from whyhang.analyzer.facts import Outlook

_SIGNS = re.compile(
    r"""(?imx)
      \b(?<!--)(?!iters:|step:\ \d+\()(?:global[_ ])?(?:step|iter(?:ation)?|epoch|batch|update|round)s?\b\W{0,4}\[?\d
    | \b(?<!--)(?:loss|accuracy|acc|perplexity|ppl|lr|grad[_ ]norm|throughput)\b\W{0,4}(?!0\.0\b)\d
    | (?<![\d.])(?!0\.0\ )\d+(?:\.\d+)?\ ?(?:it|s|tokens|samples|steps|imgs?)/(?:s|sec|it)\b
    | (?<!\d)\d+%\|
    | \b(?:Abort|Destroy)\ COMPLETE
    | ^[ \t]*\d+[ \t]+\d+[ \t]+(?:u?int\d+|half|float|double|bfloat16|fp8\w*)\s+(?:sum|prod|min|max|avg|none)\s
    | \#\ (?:Avg\ bus\ bandwidth|Out\ of\ bounds\ values)
    | \b(?:training|job|run|evaluation|all\ tests?)\b.{0,20}\b(?:complete|completed|finished|done|passed)\b
    | \bsaved?\b.{0,40}\bcheckpoint | \bcheckpoint\b.{0,40}\bsaved\b
    | \bsuccessfully\ finished\b
    | \bHTTP/\d\.\d"\ 200\b
    """  # noqa: E501
)


_LAST_LINES = 30  # in which an end is looked for

_ENDS = re.compile(
    r"""(?imx)
      \b(?:Abort|Destroy)\ COMPLETE
    | ^[^a-z\n]*(?:(?:all|excluded|ranks?\s?\d*:?|everything|process(?:es)?|is|are)\W+){0,3}
        (?:(?:done|finished|completed)(?:\ (?:in|after)\ [\d:.]+\ ?\w*)?|exiting|bye|goodbye)\W*$
    | \b(?:training|trainer|job|run|benchmark|program|script|experiment|workload)
        (?:\ (?:loop|run|job|is|was|has|now|been|successfully|all)){0,4}
        \ (?:completed?|finished|done|ended|succeeded|passed)\b(?!\ (?:epoch|step|batch|iter))
    | \ball\ (?:tests?|epochs)(?:\ (?:are|were|have|been))*\ (?:completed?|finished|done|passed)\b
    | \bdone\ training\ in\ \d | \bfinished\ (?:training\b(?!\ (?:epoch|step|batch|iter))|successfully|without|mdrun)
    | \b(?:complet|finish|exit|end)\w*\ (?:successfully|normally|cleanly)\b
    | \bsuccessfully\ (?:finished|completed|exited)\W*$
    | \bexit(?:ed|ing|s)?\b[^.]{0,20}\b(?:code|status)\W{0,3}0\b
    | \bsaved\b.{0,20}\bfinal\b | \bfinal\ (?:checkpoint|model|weights)\b.{0,40}\b(?:saved|written)\b
    | \btraining\ time:?\ (?:\d+\ days?,\ )?\d+:\d\d:\d\d | \ ->\ FINISHED\W*$ | ^Job\ '\S+'\ succeeded$
    | \b(?:total\ (?:training|wall|run|elapsed)[ -]?time|train_runtime|final\ (?:loss|accuracy|score|results?|metrics?))\b
    | `?Trainer\.fit`?\ stopped: | \bexiting\ program\ at\ iteration\b | \bend\ of\ (?:training|tests|program)\b
    | \b\d+\ passed\b(?:,\ (?:0|no)\ failed)? | \bPROGRAM\ ENDED\b
    | \bwandb:\ (?:Synced|Run\ (?:summary|history)|.{0,4}View\ run)
    | \bprocess\ group\ (?:was\ |is\ )?destroyed\b | \bdestroyed\ (?:the\ )?process\ group\b
    | \#\ (?:Avg\ bus\ bandwidth|Out\ of\ bounds\ values)
    | (?:shutdown|shutting\ down)\ complete | \bFinished\ server\ process\b
    """  # noqa: E501
)
"""Words of an end that was planned: a result, a farewell, a last checkpoint."""

_OF_ALL = re.compile(
    r"(?i)\b(?P<unit>step|iter(?:ation)?|epoch|batch|round|update)s?\b\W{0,4}"
    r"(?P<at>\d+)\s?(?:/|of)\s?(?P<all>[1-9]\d*)\b"
)
_BAR = re.compile(r"(?<!\d)(?P<at>\d+)/(?P<all>\d+) \[\d\d:\d\d")
"""Counters with what they count to."""
_COUNT_OF_BAR = re.compile(r"(?<!\d)(\d+)(?:/(\d+)|\w{0,12}) \[\d\d:\d\d")
"""The same of any bar, also of one that does not know its end: "31it [00:13,"."""

_BEGINS = re.compile(
    r"(?i)^\W*(?:now )?(?:calling|entering|waiting|destroying|saving|uploading|writing|joining"
    r"|start(?:ing)?|begin(?:ning)?|flushing|closing|shutting down|tearing down|synchroni[sz]ing)\b"
)
"""What is only begun: as the last line of all it is no end."""

_EPOCH = re.compile(r"(?i)\bepoch\b")
_THROUGH = re.compile(r"(?i)\b(?:done|finished|completed?|took|time)\b|100%")
"""Behind the number of the last epoch: it is not only begun."""

_RESULT = re.compile(
    r"(?i)\b(?:elapsed|loss(?:es)?|acc(?:uracy)?|ppl|perplexity|nll|score|reward|grad[_ ]?norm"
    r"|throughput|mfu|tflops)\b|\d ?m?s\b|/s(?:ec)?\b"
)
"""Beside the number of the last step: what it came to, so it is not only begun."""

_IDLE = re.compile(
    r"(?i)generation throughput: 0\.0\b.*running: 0\b.*(?:waiting|pending): 0\b"
    r"|#running-req: 0\b.*#queue-req: 0\b"
    r"|waiting for (?:new )?(?:requests?|connections?|clients?)\b|ready to roll"
    r"|press ctrl\+c to quit|application startup complete\.?\s*$"
    r"|\"GET /(?:health\w*|ping|metrics|v1/models|get_model_info)\S*"
    r" HTTP/[\d.]+\" 200"
)
"""A server that has nothing to do."""

_BUSY = re.compile(r"(?i)running: [1-9]|#running-req: [1-9]|(?:waiting|#queue-req|pending): [1-9]")

_NO_WORK = re.compile(r"\b(?:slurmstepd|srun|salloc|sbatch|scancel|mpirun|orterun): |rendezvous")


_PROGRAM = re.compile(
    r"(?:site|dist)-packages/(?:torch|deepspeed|accelerate|lightning)\b|\btorchrun\b"
)


_NCCL = re.compile(r":\d+:\d+ \[\d+\] (?:NCCL INFO |INFO NET)")

_FRAME = re.compile(r'File "[^"\n]*", line \d+')
"""A frame of a traceback: what stands below it is source, and says nothing of the run."""


def program(text: str) -> str | None:
    """Return what shows that a text is the output of a training program, or None."""
    if match := _NCCL.search(text):
        return match.group(0)
    if "torchrun" not in text and "-packages/" not in text:  # in a tenth of the time
        return None
    match = _PROGRAM.search(text)
    return match.group(0) if match is not None else None


def sign(text: str) -> str | None:
    """Return the first sign of life in a text, or None."""
    for match in _SIGNS.finditer(text):
        begin = text.rfind("\n", 0, match.start()) + 1
        end = text.find("\n", match.end())
        above = text.rfind("\n", 0, max(0, begin - 1)) + 1
        if _FRAME.search(text, above, begin):
            continue
        if _NO_WORK.search(text, begin, len(text) if end < 0 else end) is None:
            return match.group(0).strip()
    return None


def count_of_bar(text: str) -> tuple[str, ...] | None:
    """Return how far a progress bar has come, and of what; None where there is none."""
    counts = [match.groups() for match in _COUNT_OF_BAR.finditer(text)]
    return counts[-1] if counts else None


def last_sign(lines: Sequence[str], above: str = "", without: str = "") -> int | None:
    """Return the place of the last line with a sign of life and without a text, or None.

    A progress bar is drawn once more as it is closed, also by an exception: one that has come no
    further than the one before, which may stand in the text ``above``, is no sign.
    """
    count, redrawn = count_of_bar(above), set()
    for at, line in enumerate(lines):
        if (drawn := count_of_bar(line)) is not None:
            redrawn |= {at} if drawn == count else set()
            count = drawn
    for at in range(len(lines) - 1, -1, -1):
        is_source = at > 0 and _FRAME.search(lines[at - 1]) is not None
        if is_source or at in redrawn or (without and without in lines[at]):
            continue
        if sign(lines[at]) is not None:
            return at
    return None


def outlook(lines: Sequence[str]) -> tuple[Outlook, int]:
    """Return what the last lines of a rank show, and the place of the line that says so.

    The last one that says anything decides: what follows an end without a step is its aftermath.
    """
    last = lines[-_LAST_LINES:]
    first = len(lines) - len(last)
    begun = _BEGINS.match(last[-1]) and not (_ENDS.search(last[-1]) or _IDLE.search(last[-1]))
    for at in range(len(last) - 1, -1, -1):
        shown = _shown(last[at], last)
        if shown is not Outlook.UNKNOWN:
            return Outlook.STEPS if begun and shown is Outlook.ENDED else shown, first + at
    return Outlook.UNKNOWN, -1


def _shown(line: str, lines: Sequence[str]) -> Outlook:
    if counters := [*_OF_ALL.finditer(line), *_BAR.finditer(line)]:
        if _at_their_end(line, counters, lines):
            return Outlook.ENDED
        full = all(match["at"] == match["all"] for match in counters)
        # a full bar may be that of an epoch, or of all: what stands above it tells
        return Outlook.UNKNOWN if full and _BAR.search(line) else Outlook.STEPS
    if _ENDS.search(line):
        return Outlook.ENDED
    if _IDLE.search(line):
        return Outlook.IDLE
    return Outlook.STEPS if sign(line) is not None or _BUSY.search(line) else Outlook.UNKNOWN


def _at_their_end(line: str, counters: Sequence[re.Match[str]], lines: Sequence[str]) -> bool:
    """Return whether all counters of a line are where they count to.

    Steps begin anew with each epoch; the number of the last step or epoch may be printed as it
    begins.
    """
    units = [match.groupdict().get("unit", "step").lower() for match in counters]
    steps_end = "epoch" in units or not any(_EPOCH.search(each) for each in lines)
    seen = Counter(match[0] for each in lines for match in _OF_ALL.finditer(each))
    once = len(seen) > 1 and set(seen.values()) == {1}  # each epoch is told once, as it is over
    is_result = (units != ["epoch"] or once) and _RESULT.search(line) is not None
    through = is_result or _THROUGH.search(line) or _BAR.search(line)
    return bool(steps_end and through) and all(match["at"] == match["all"] for match in counters)
