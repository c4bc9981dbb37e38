"""What schedulers say of jobs, pods and nodes: sacct, squeue, sinfo, scontrol show, kubectl."""

from collections.abc import Iterator, Mapping

from whyhang.analyzer import toml
from whyhang.analyzer.facts import NOBODY, Record, Scheduled, Statement
from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_BELOW = 64  # lines of one record


class _States(Record):
    short: dict[str, str]
    long: tuple[str, ...]
    rare: tuple[str, ...]


_WORDS = toml.read(__package__, "slurm.toml", _States)
_STATES = frozenset({*_WORDS.short.values(), *_WORDS.long, *_WORDS.rare})
_ROW = limits.compile(r"\d[\w.+-]*|\d+_\[[\d,%-]+\]")
_PAIR = limits.compile(r"(?P<key>[A-Z][\w:]*)=(?P<value>.*?)(?= [A-Z][\w:/]*=|$)")
_NODE_STATE = limits.compile(r"[A-Za-z_+]+")

MAX_DESCRIPTION = 600  # lines of one description
_AGO = limits.compile(r" \([^()]{1,20} ago\)")
_NAME = limits.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_LINE = limits.compile(r"(?P<key>[A-Z][\w -]*?): +(?P<value>\S.*)$")
_EVENT = limits.compile(
    r"Warning (?P<why>[A-Z]\w+) .*?"
    r"(?P<text>\d{1,6}/\d{1,6} nodes are available.*|MountVolume.*|(?:Failed|Error|Back-off) .*)$"
)
_UNSCHEDULED = frozenset({"FailedScheduling", "FailedMount", "FailedAttachVolume", "Failed"})


def slurm_table(lines: Lines) -> Iterator[Statement]:
    """Read the rows below a header of sacct, squeue or sinfo."""
    header = lines.next
    names = [name.partition("%")[0] for name in header.text.replace("|", " ").upper().split()]
    of_jobs = names[:1] == ["JOBID"] and ("STATE" in names or "ST" in names)
    if not (of_jobs or {"NODELIST", "STATE"} <= set(names)):
        return
    rule = lines.behind if lines.behind.words.startswith("--") else None
    if rule is not None:
        lines.take()

    def row_of(line: PrintedLine) -> Statement | None:
        row = dict(zip(names, _cells(line.text, header.text, rule, len(names)), strict=False))
        return _job(line, row) if of_jobs else _nodes(line, row)

    yield from lines.below(row_of)


def _cells(text: str, header: str, rule: PrintedLine | None, count: int) -> list[str]:
    """Split a row at bars, where the rule below the header does, or at blanks."""
    if "|" in header:
        return [cell.strip() for cell in text.split("|")]
    if rule is None:
        return text.split(maxsplit=count - 1)
    cells, start = [], 0
    for dashes in rule.text.split(" "):
        cells.append(text[start : start + len(dashes)].strip())
        start += len(dashes) + 1
    return cells


def _job(line: PrintedLine, row: Mapping[str, str]) -> Scheduled | None:
    """Read a row of a job or step; None where the table is at its end."""
    name = row.get("JOBID", "")
    word = (row.get("STATE") or row.get("ST") or "").partition(" ")[0]
    state = _WORDS.short.get(word, word)
    if state.endswith("+"):  # cut off at the width of the column
        state = next((full for full in _WORDS.long if full.startswith(state[:-1])), state)
    if not _ROW.fullmatch(name) or state not in _STATES:
        return None
    nodes = row.get("NODELIST", "") or row.get("NODELIST(REASON)", "")
    why = nodes.strip("()") if nodes.startswith("(") else row.get("REASON", "")
    return Scheduled(
        who=NOBODY,
        source=line.source,
        kind="job",
        name=name,
        state=state,
        quote=line.words,
        reason="" if why in {"None", "(null)"} else why,
        hosts=() if nodes.startswith("(") else expand(nodes),
    )


def _nodes(line: PrintedLine, row: Mapping[str, str]) -> Scheduled | None:
    """Read a row of sinfo: nodes in one state."""
    hosts, state = expand(row.get("NODELIST", "")), row.get("STATE", "")
    if not hosts or not _NODE_STATE.match(state):
        return None
    return Scheduled(
        who=NOBODY,
        source=line.source,
        kind="node",
        name=row["NODELIST"],
        state=state.upper(),
        quote=line.words,
        reason="" if row.get("REASON") == "none" else row.get("REASON", ""),
        hosts=hosts,
    )


def slurm_record(lines: Lines) -> Iterator[Statement]:
    """Read what scontrol show job or show node prints of one of them."""
    if not lines.next.words.startswith(("JobId=", "NodeName=")):
        return
    quote = lines.take()
    pairs = _pairs(quote.words)
    for count, line in enumerate(lines):
        below = _pairs(line.words)
        if count > MAX_BELOW or not below or below.keys() & {"JobId", "NodeName"}:
            break
        if below.keys() & {"JobState", "State"}:
            quote = line
        pairs = below | pairs
    of_job = "JobId" in pairs
    state = pairs.get("JobState" if of_job else "State", "")
    name = pairs["JobId" if of_job else "NodeName"]
    reason = pairs.get("Reason", "").partition(" Dependency=")[0]
    if _NODE_STATE.match(state):
        yield Scheduled(
            who=NOBODY,
            source=quote.source,
            kind="job" if of_job else "node",
            name=name,
            state=state,
            quote=quote.words if of_job else f"{name}: {quote.words}",
            reason="" if reason in {"None", "(null)"} else reason,
            hosts=expand(pairs.get("NodeList", "")) if of_job else (name,),
        )


def _pairs(text: str) -> dict[str, str]:
    return {match["key"]: match["value"].strip() for match in _PAIR.finditer(text)}


def kubectl_table(lines: Lines) -> Iterator[Statement]:
    """Read the rows below a header of kubectl get pods, get nodes, or of jobs by their operator."""
    names = lines.next.text.replace("NOMINATED NODE", "NOMINATED").split()
    pods, nodes = {"READY", "STATUS"} <= set(names), {"STATUS", "ROLES"} <= set(names)
    jobs = names == ["NAME", "STATE", "AGE"]
    if "NAME" not in names or not (pods or nodes or jobs):
        return

    def row_of(line: PrintedLine) -> Statement | None:
        cells = _AGO.sub("", line.words).split(maxsplit=len(names) - 1)
        row = dict(zip(names, cells, strict=False))
        name = row.get("NAME", "").rpartition("/")[2]
        if jobs and len(cells) == len(names) - 1:  # its state is not known yet
            row["STATE"] = ""
        elif len(cells) < min(4, len(names)):
            return None
        if not _NAME.fullmatch(name):
            return None
        host = name if nodes else row.get("NODE", "")
        return Scheduled(
            who=NOBODY,
            source=line.source,
            kind="node" if nodes else "pod" if pods else "job",
            name=name,
            state=row["STATE" if jobs else "STATUS"],
            quote=line.words,
            hosts=(host,) if host not in {"", "<none>"} else (),
        )

    yield from lines.below(row_of)


def kubectl_description(lines: Lines) -> Iterator[Statement]:
    """Read what kubectl describe pod prints of one, from the line below its name."""
    if not lines.next.words.startswith("Namespace:") or "Name:" not in lines.above.words:
        return
    name = lines.above.words.rpartition(" ")[2]
    quote, event, pairs = lines.take(), "", dict[str, str]()
    for count, line in enumerate(lines):
        if count > MAX_DESCRIPTION or line.words.startswith("Name: "):
            break
        if match := _EVENT.match(line.words):
            if match["why"] in _UNSCHEDULED:
                event, quote = match["text"], line
        elif pair := _LINE.match(line.words):
            if pair["key"] == "Status" or (pair["key"] == "Reason" and "Reason" not in pairs):
                quote = line if not event else quote
            pairs.setdefault(pair["key"], pair["value"])
    state, why = pairs.get("Status", ""), pairs.get("Reason", "")
    if state:
        yield Scheduled(
            who=NOBODY,
            source=quote.source,
            kind="pod",
            name=name,
            state=why if state == "Failed" and why else state,
            quote=f"{name}: {quote.words}",
            reason=event or why or pairs.get("Message", ""),
            hosts=(pairs["Node"].partition("/")[0],) if "/" in pairs.get("Node", "") else (),
        )
