"""Processes and their states, as ps and top list them."""

from whyhang.analyzer.facts import ProcessState, Statement, Who
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_ROWS = 4000
_STATES = ("STAT", "S", "STATE")
_COMMANDS = ("COMMAND", "CMD", "ARGS")
_LETTERS = frozenset("RSDTtZXIW")
_LOCAL_RANK = limits.compile(r"--local[_-]rank[= ](?P<rank>\d{1,3})(?!\d)")
_DEFUNCT = "<defunct>"


def table(lines: Lines) -> list[Statement]:
    """Read the rows below a header that names at least the pid and the command."""
    names = lines.next.text.split()
    if "PID" not in names or not names or names[-1] not in _COMMANDS:
        return []
    lines.take()
    facts: list[Statement] = []
    for line in lines:
        row = _row(line, names)
        if row is None or len(facts) >= MAX_ROWS:
            break
        facts.append(row)
    return facts


def _row(line: PrintedLine, names: list[str]) -> ProcessState | None:
    cells = line.text.split(maxsplit=len(names) - 1)
    if len(cells) == len(names) - 1 > 2:
        cells.append("")  # cut off
    cell = dict(zip(names, cells, strict=False))
    if len(cells) < len(names) or not cell["PID"].isdecimal() or len(cell["PID"]) > 8:
        return None
    command = cells[-1].strip()
    states = [cell[name] for name in _STATES if name in cell]
    state = states[0][:1] if states else "Z" if command.endswith(_DEFUNCT) else ""
    if state and state not in _LETTERS:
        return None
    local = _LOCAL_RANK.search(command)
    return ProcessState(
        who=Who(
            pid=int(cell["PID"]),
            local_rank=int(local["rank"]) if local else None,
        ),
        source=line.source,
        state=state,
        wchan=cell.get("WCHAN", "").strip("-"),
        command=command,
        ppid=int(cell["PPID"]) if cell.get("PPID", "").isdecimal() else None,
        quote=line.words,
    )
