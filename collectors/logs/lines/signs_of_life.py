"""Signs of life in a log: steps, epochs, losses, progress bars, results, an orderly end.

A log of a job that never got beyond its start holds none of them. Only the beginning and the
end of a file are looked at: whoever trains says so at least there. The words of a scheduler and
of a rendezvous (job steps, rounds) are none. A number is taken from its first digit on only, or
thousands of digits in a row would take minutes.
"""

from __future__ import annotations

import re

_SIGNS = re.compile(
    r"""(?imx)
      \b(?<!--)(?!iters:|step:\ \d+\()(?:global[_ ])?(?:step|iter(?:ation)?|epoch|batch|update|round)s?\b\W{0,4}\[?\d
    | \b(?<!--)(?:loss|accuracy|acc|perplexity|ppl|lr|grad[_ ]norm|throughput)\b\W{0,4}\d
    | (?<!\d)\d+(?:\.\d+)?\ ?(?:it|s|tokens|samples|steps|imgs?)/(?:s|sec|it)\b
    | (?<!\d)\d+%\|
    | \b(?:Abort|Destroy)\ COMPLETE
    | ^[ \t]*\d+[ \t]+\d+[ \t]+(?:u?int\d+|half|float|double|bfloat16|fp8\w*)\s+(?:sum|prod|min|max|avg|none)\s
    | \#\ (?:Avg\ bus\ bandwidth|Out\ of\ bounds\ values)
    | \b(?:training|job|run|evaluation|all\ tests?)\b.{0,20}\b(?:complete|completed|finished|done|passed)\b
    | \bsaved?\b.{0,40}\bcheckpoint | \bcheckpoint\b.{0,40}\bsaved\b
    | \bsuccessfully\ finished\b
    """  # noqa: E501
)


_NO_WORK = re.compile(r"\b(?:slurmstepd|srun|salloc|sbatch|scancel|mpirun|orterun): |rendezvous")


_PROGRAM = re.compile(
    r"(?:site|dist)-packages/(?:torch|deepspeed|accelerate|lightning)\b|\btorchrun\b"
)


_NCCL = re.compile(r":\d+:\d+ \[\d+\] (?:NCCL INFO |INFO NET)")


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
        if _NO_WORK.search(text, begin, len(text) if end < 0 else end) is None:
            return match.group(0).strip()
    return None
