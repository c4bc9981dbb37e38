"""Where the text of a log line tells its speaker's rank: what stands in front of it tells more.

The words of c10d and the headers of programs' own loggers, and the words of a program itself,
which count where the whole file shows that they do (``voice.py``).
"""

import re
from collections.abc import Mapping

from whyhang.analyzer.facts import NOBODY, Trust, Who
from whyhang.collectors import limits
from whyhang.collectors.logs.text.logger_header import reduce

# Lines of the c10d watchdog begin with the rank within a group, remembered from the first
# group whose work was logged (torch up to 2.13): mostly the speaker's global rank, not for sure.
C10D_RANK = re.compile(
    r"\[Rank (?P<rank>\d+)\] (?:Watchdog|Caught|Some NCCL|To avoid data|Collective WorkNCCL"
    r"|Work WorkNCCL|NCCL watchdog|[Ff]ound async|Exception|Timeout at|Process group|Received"
    r"|Running collective)"
)

# Within the default group the rank of a group is the global one.
_DEFAULT_GROUP_RANK = re.compile(
    r"\[PG (?:ID \d+ PG GUID )?0 ?(?:\(default_pg\))? ?Rank (?P<rank>\d+)\]"
    r"|^\[(?P<rank2>\d+)\](?: is setting up NCCL communicator|: params\[)"
)
# A rank among times, levels and places in the header that a program's logger writes (DeepSpeed,
# TensorRT-LLM, oneCCL). Not in that of c10d, which numbers within a group.
_RANK_IN_HEADER = limits.compile(
    r"(?!\[?[EWIF]\d{0,4} )"
    r"(?:(?:\[[^\]\n]{1,60}+\]|\|[^|\n]{1,30}+\|?+|\(\d{1,10}+\)|\d[\d:.,/TZ-]{0,40}+"
    r"|(?:INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL)(?::[A-Za-z_][\w.]{1,60}+(?=:))?)[ :]{0,4}+){1,6}"
    r"[\[(]?(?:rank|RANK|Rank|process)[ =:]{0,2}(?P<rank>\d{1,6}) ?[\])|:]"
)

# The same within brackets, or behind a worker's name: [trainer.util:158, rank=6], Worker[rank=5]:
_RANK_IN_BRACKETS = limits.compile(
    r"(?:(?:\[[^\]\n]{1,60}+\]|\d[\d:.,/TZ-]{0,40}+|INFO|WARN(?:ING)?|ERROR|DEBUG|CRITICAL)"
    r"[ :]{0,4}+){0,4}"
    r"(?:[A-Za-z]\w{0,40}+)?\[(?:[\w.:/-]{1,60}+[, ]{1,2}+)?[Rr]ank[=: ](?P<rank>\d{1,6})\](?::| )"
)

# The monitor of a rank, of NVIDIA's resiliency extension.
_MONITOR = re.compile(r"\[RankMonServer\d*@[\w.-]+:(?P<rank>\d{1,6})\]")

# An exception whose message begins with who raised it: "RuntimeError: Rank 9, node n3: got nan";
# LAMMPS: "MPIAbortException: 'ERROR on proc 7: …".
_RAISED_BY = limits.compile(
    r"(?:\w+\.){0,6}+[A-Z]\w{0,40}?(?:Error|Exception|Timeout): "
    r"(?:\[?(?:[Gg]lobal )?[Rr]ank|'?ERROR on proc) (?P<rank>\d{1,6})\]?[:,]"
)

_WORDS = (
    r"(?:(?:global|GLOBAL)[ _])?"
    r"(?:rank|Rank|RANK|[Pp]rocess|PROCESS|[Pp]roce(?:so|sso|ssus)|Prozess|PE)"
)
_OF_SO_MANY = r"(?: (?:of|de|von) \d{1,6}| ?/ ?\d{1,6})?"

# A program that prints its rank in words of its own: "Rank 7 tensor before …", "- rank = 2, …",
# "Process 3 of 8: …", in the words of other languages, too.
OWN_WORDS = re.compile(
    r"^[ \t]{0,8}(?:[#>*-]+ )?(?!Process \d+: (?:\S*/|python|ray::))"  # not the head of a dump
    rf"{_WORDS} ?[=:#]? ?(?P<rank>\d{{1,6}}){_OF_SO_MANY}(?=[\s,:;|-])"
    # behind the name of a host or of a library
    r"|^[A-Za-z][\w.-]{0,60} (?:(?P<open>\[))?(?:rank|Rank|RANK)[ =]?"
    rf"(?P<rank2>\d{{1,6}}){_OF_SO_MANY}"
    r"(?(open)\](?= )|(?= ?[|:]))"
)

# A number alone in brackets, or of so many, which counts ranks only where ``_count_ranks`` says so.
INDEX_LABEL = re.compile(
    r" {0,4}(?:\[|(?P<round>\()|(?P<angle><)) {0,4}(?P<rank>\d{1,4})(?:/(?P<of>\d{1,4}))?"
    r"(?(round)\)|(?(angle)>|\]))(?=[ :] ?\S)"
)
# The same behind a name that all lines have, as that of a pod: "trainer-3 INFO …".
NAMED_INDEX = re.compile(
    r"\[?(?P<name>(?!node|host|server|gpu|cuda|step|epoch)[A-Za-z][\w.-]{0,40}?)-(?P<rank>\d{1,4})"
    r"\]?(?=[ :|])"
)
# The same behind a word of any language, in brackets or not: (Shard 3), [Rang 2/4], 进程3:
WORDED_INDEX = re.compile(
    r"(?P<open>[\[(<{])?(?P<name>(?!(?i:local|node|host|server|gpu|cuda|dev|step|epoch|it(?:er)?\b|iteration"
    r"|batch|round|attempt|try|trial|run|fold|layer|stage|expert|part|seed|line|time|page|chapter|phase"
    r"|test|case|update|loss|lr|v|[dtpec]p|pid|tid|port|version|took)[\W_\d])"
    r"[^\W\d_](?:[\w.-]{0,24}[^\W\d_])?)"
    r"[ =:#_-]{0,2}(?P<rank>\d{1,4})(?: ?(?:/|of|von|sur|de) ?(?P<of>\d{1,4}))?"
    r"(?(open)(?:[, |]{1,2}(?:pid|tid|ip|host|t)[ =:][\w.-]{1,60}){0,2}[\])>}]:?(?=[ :] ?\S)"
    r"|(?=: ?\S| ?[|>] ?\S| - \S))"
)
# A name in front of a message, and lines that say which rank it is: "rank 3 -> stage1.dp1".
NAME = re.compile(
    r"[\[(<{]?(?P<name>[^\W\d_][\w./@|-]{0,60}?)[\])>}]?(?: ?[:|>]|(?<=[\])>}]))? +(?=\S)"
)
_IS = r" ?(?:->|=>|→|[=:(]|\bis\b|\bas\b) ?"
_OF_NAME = r"[\[(]?(?P<name>[^\W\d_][\w./@|-]{0,60}\d[\w./@|-]{0,20})[\])]?"
NAMED_RANK = (
    re.compile(rf"(?i)\b(?:global )?rank[ =:#]{{0,2}}(?P<rank>\d{{1,6}}){_IS}{_OF_NAME}\W*$"),
    re.compile(
        rf"(?i)(?:^|(?<=\s)){_OF_NAME}{_IS}(?:global )?rank[ =:#]{{0,2}}(?P<rank>\d{{1,6}})\W*$"
    ),
)
# A number of a rank or of its device within a line, which is who speaks where all print that line.
MENTIONED_INDEX = re.compile(
    r".{0,160}?(?<![\w-])(?:(?:global[ _])?[Rr]ank|RANK|[Pp]rocess|GPU|cuda|[Dd]evice)"
    r"(?: ?[:=#] ?| ?)(?P<rank>\d{1,4})(?![\w.])"
)


_OWN_LABEL = re.compile(
    rf"[\W_]{{0,4}}(?:{_WORDS}|worker|Worker)[ =:#_-]{{0,2}}(?P<rank>\d{{1,6}}){_OF_SO_MANY}"
    r"(?:[])>]\W{0,3}|:\s*|,\s*|\s*[|-]\s+|\s+)(?=\S)"
)


def behind_own_label(text: str, who: Who, names: Mapping[str, int]) -> str:
    """Return what a rank says behind its own label, as the other ranks say it: "[rank 3] saving".

    The text as it stands where no label of this rank begins it, or nothing but numbers follows.
    """
    if (name := NAME.match(text)) is not None and name["name"] in names:
        return text[name.end() :]
    label = _OWN_LABEL.match(text)
    if label is None or int(label["rank"]) not in {who.rank, who.local_rank}:
        return text
    message = text[label.end() :]
    return message if any(letter.isalpha() for letter in message) else text


def last_state(text: str) -> str:
    """Return what was written last in a line that is drawn over and over, as a progress bar is."""
    return text.rstrip().rpartition("\r")[2]


def rank_in_statement(text: str) -> tuple[int, str, str]:
    """Return the first rank or device that a line mentions; the templates up to it and without it.

    The templates are empty where it mentions none.
    """
    index = MENTIONED_INDEX.match(text)
    if index is None:
        return 0, "", ""
    without = text[: index.start("rank")] + text[index.end("rank") :]
    return int(index["rank"]), reduce(text[: index.start("rank")])[0], reduce(without)[0]


def rank_in_content(text: str) -> Who:
    """Read the rank out of a c10d line, where no prefix and no file name tells it."""
    if match := _DEFAULT_GROUP_RANK.search(text):
        return Who(rank=int(match["rank"] or match["rank2"]), trust=Trust.INFERRED)
    if match := C10D_RANK.search(text):
        return Who(rank=int(match["rank"]), trust=Trust.INFERRED)
    if match := _MONITOR.search(text):
        return Who(rank=int(match["rank"]), trust=Trust.PREFIX)
    if header := _RANK_IN_HEADER.match(text) or _RANK_IN_BRACKETS.match(text):
        return Who(rank=int(header["rank"]), trust=Trust.PREFIX)
    if raised := _RAISED_BY.match(text):
        return Who(rank=int(raised["rank"]), trust=Trust.INFERRED)
    return NOBODY
