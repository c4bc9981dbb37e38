"""What Kubernetes says of pods and nodes: kubectl get and describe."""

from whyhang.analyzer.facts import NOBODY, Scheduled, Statement
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_BELOW = 600  # lines of one description
_AGO = limits.compile(r" \([^()]{1,20} ago\)")
_NAME = limits.compile(r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?")
_PAIR = limits.compile(r"(?P<key>[A-Z][\w -]*?): +(?P<value>\S.*)$")
_EVENT = limits.compile(
    r"Warning (?P<why>[A-Z]\w+) .*?"
    r"(?P<text>\d{1,6}/\d{1,6} nodes are available.*|MountVolume.*|(?:Failed|Error|Back-off) .*)$"
)
_UNSCHEDULED = frozenset({"FailedScheduling", "FailedMount", "FailedAttachVolume", "Failed"})


def table(lines: Lines) -> list[Statement]:
    """Read the rows below a header of kubectl get pods or get nodes."""
    names = lines.next.text.replace("NOMINATED NODE", "NOMINATED").split()
    pods, nodes = {"READY", "STATUS"} <= set(names), {"STATUS", "ROLES"} <= set(names)
    if "NAME" not in names or not (pods or nodes):
        return []

    def row_of(line: PrintedLine) -> Statement | None:
        cells = _AGO.sub("", line.words).split(maxsplit=len(names) - 1)
        row = dict(zip(names, cells, strict=False))
        if not _NAME.fullmatch(row.get("NAME", "")) or len(cells) < min(4, len(names)):
            return None
        host = row["NAME"] if nodes else row.get("NODE", "")
        return Scheduled(
            who=NOBODY,
            source=line.source,
            kind="node" if nodes else "pod",
            name=row["NAME"],
            state=row["STATUS"],
            quote=line.words,
            hosts=(host,) if host not in {"", "<none>"} else (),
        )

    return lines.below(row_of)


def described(lines: Lines) -> list[Statement]:
    """Read what kubectl describe pod prints of one, from the line below its name."""
    if not lines.next.words.startswith("Namespace:") or "Name:" not in lines.above.words:
        return []
    name = lines.above.words.rpartition(" ")[2]
    pairs: dict[str, str] = {}
    quote: PrintedLine = lines.take()
    event = ""
    for count, line in enumerate(lines):
        if count > MAX_BELOW or line.words.startswith("Name: "):
            break
        if match := _EVENT.match(line.words):
            if match["why"] in _UNSCHEDULED:
                event, quote = match["text"], line
        elif pair := _PAIR.match(line.words):
            if pair["key"] == "Status" or (pair["key"] == "Reason" and "Reason" not in pairs):
                quote = line if not event else quote
            pairs.setdefault(pair["key"], pair["value"])
    state, why = pairs.get("Status", ""), pairs.get("Reason", "")
    if not state:
        return []
    return [
        Scheduled(
            who=NOBODY,
            source=quote.source,
            kind="pod",
            name=name,
            state=why if state == "Failed" and why else state,
            quote=f"{name}: {quote.words}",
            reason=event or why or pairs.get("Message", ""),
            code=pairs.get("Exit Code", ""),
            hosts=(pairs["Node"].partition("/")[0],) if "/" in pairs.get("Node", "") else (),
        )
    ]
