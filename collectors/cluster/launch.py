"""What is to be started: batch scripts, hostfiles, specifications of jobs of Kubernetes.

Of a script, how many ranks its allocation has room for and how many its commands start; of a
hostfile of mpirun or DeepSpeed, how many there is room for on which hosts.
"""

import re
import shlex
from collections.abc import Iterable, Iterator

from whyhang.analyzer.facts import MAX_RANKS, NOBODY, LaunchPlan, Statement, counted, replace, whole
from whyhang.analyzer.job.launch import plan_of
from whyhang.analyzer.job.launchers import PROGRAMS
from whyhang.collectors import limits
from whyhang.collectors.prints import Lines, PrintedLine

MAX_HOSTS = 10_000
SHOWN = 3
_HOST = limits.compile(
    r"(?P<host>[A-Za-z0-9][\w.-]{0,252})[ \t]++slots=(?P<slots>\d{1,5})"
    r"(?:[ \t]++max[_-]slots=\d{1,5})?[ \t]*$"
)
_KIND = limits.compile(r"kind: *(?P<kind>PyTorchJob|MPIJob|StatefulSet|Job|JobSet|VCJob)$")
_COUNT = limits.compile(
    r"(?:- )?(?P<key>replicas|completions|nprocPerNode|slotsPerWorker): *"
    r"[\"']?(?P<count>\d{1,6})[\"']?$"
)
_OPTION = limits.compile(
    r"#SBATCH (?:--(?P<name>[a-z-]+)(?:[= ] *(?P<value>\S+))?|-(?P<name>[nN]) *=? *(?P<value>\S+))"
)
_ASSIGNED = limits.compile(r"(?:export )?(?P<name>[A-Za-z_]\w*)=(?P<value>[^\s;]*)$")
_VARIABLE = limits.compile(r"\$\{?(?P<name>[A-Za-z_]\w*)(?::-(?P<else>[^}]*))?\}?")
_PYTHON = limits.compile(r"(?:\S*/)?python[\d.]*")
_ELSEWHERE = limits.compile(
    r"\b(?:ssh|pdsh|clush|parallel|xargs|sbatch|kubectl|ray|horovodrun|deepspeed|nohup)\b|(?<!&)&$"
    r"|\b(?:for|while)\b"
)
"""What starts processes in ways that are not counted here."""
_COUNTS = {"-n", "-np", "-c", "--n", "--np", "--ntasks"}


def script(lines: Lines) -> Iterator[Statement]:
    """Read a batch script from its first option to its end."""
    if not lines.next.text.startswith("#SBATCH"):
        return
    options: dict[str, str] = {}
    commands: list[PrintedLine] = []
    for line in lines:
        if option := _OPTION.match(line.words):
            name = {"n": "ntasks", "N": "nodes"}.get(option["name"], option["name"])
            options[name] = option["value"] or ""
        elif line.words and not line.words.startswith("#"):
            commands.append(line)
    nodes = whole(options.get("nodes", "").partition("-")[0], 7) or 1
    per_node = whole(options.get("ntasks-per-node"), 7)
    slots = whole(options.get("ntasks"), 7) or nodes * (per_node or 1)
    gpus = options.get("gpus-per-node", options.get("gres", "")).rpartition(":")[2]
    variables = dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), str(slots))
    variables |= dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), str(nodes))
    variables |= {"SLURM_GPUS_ON_NODE": gpus, "SLURM_NTASKS_PER_NODE": str(per_node or 1)}
    if started := [*_started(commands, variables, slots)]:
        ranks, line = max(started, key=lambda pair: -1 if pair[0] is None else pair[0])
        unsure = any(count is None for count, _ in started)
        yield LaunchPlan(
            who=NOBODY,
            source=line.source,
            quote=line.words,
            ranks=None if unsure else ranks,
            slots=slots,
            nodes=nodes,
            master=variables.get("MASTER_ADDR"),
        )


def _started(
    commands: Iterable[PrintedLine], variables: dict[str, str], slots: int
) -> Iterator[tuple[int | None, PrintedLine]]:
    """Yield for each command that starts ranks how many; None where that cannot be told."""
    for line in _joined(commands):
        text = _VARIABLE.sub(lambda m: variables.get(m["name"], m["else"] or m[0]), line.words)
        if assigned := _ASSIGNED.match(text):
            variables[assigned["name"]] = assigned["value"].strip("'\"")
            continue
        try:
            words = shlex.split(text, comments=True)
        except ValueError:
            words = text.split()
        if _ELSEWHERE.search(text):
            yield None, line
        elif (count := _ranks(words, slots)) != 0:
            yield count, line


def _joined(commands: Iterable[PrintedLine]) -> Iterator[PrintedLine]:
    """Join lines that go on behind a backslash."""
    whole: PrintedLine | None = None
    for line in commands:
        text = line.words if whole is None else whole.text + line.words
        whole = replace(whole or line, text=text.removesuffix("\\"))
        if not text.endswith("\\"):
            yield whole
            whole = None
    if whole is not None:
        yield whole


def _ranks(words: list[str], slots: int) -> int | None:
    """Return how many ranks a command starts; 0 where it starts none."""
    while words and ("=" in words[0] or words[0] in {"time", "exec", "env", "numactl"}):
        words = words[1:]
    if not words:
        return 0
    program = words[0].rpartition("/")[2]
    by_launcher = PROGRAMS.get(program) in {"slurm", "mpirun"}
    copies = _copies(words, slots) if by_launcher else 1
    plan = plan_of(" ".join(words[by_launcher:]), {})
    if plan is not None:
        per_node = plan.number("nproc_per_node")
        if copies is None or (per_node is None and "nproc_per_node" in plan.options):
            return None
        return (per_node or 1) * copies
    if by_launcher:
        return copies
    return 1 if _PYTHON.fullmatch(program) and not {"-c", "pip", "-V"} & set(words) else 0


def _copies(words: list[str], slots: int) -> int | None:
    """Return how often srun or mpirun starts its program: as its option says, else once a slot."""
    for word, after in zip(words[1:], [*words[2:], ""], strict=True):
        name, _, value = word.partition("=")
        if name in _COUNTS - ({"-c"} if words[0].endswith("srun") else set()):
            return whole(value or after, 7)
        if re.fullmatch(r"-n\d+", word):
            return int(word[2:])
    return slots


def hostfile(lines: Lines) -> Iterator[Statement]:
    """Read the lines of hosts, with comments between them."""
    first = lines.next
    if _HOST.match(first.text.strip()) is None:
        return
    hosts: list[tuple[PrintedLine, int]] = []
    placed: list[str] = []
    for line in lines:
        text = line.text.strip()
        match = _HOST.match(text)
        if match is None and text and not text.startswith("#"):
            break
        if match is not None and len(hosts) < MAX_HOSTS:
            hosts.append((line, int(match["slots"])))
            placed += [match["host"]] * min(int(match["slots"]), MAX_RANKS - len(placed))
    slots = sum(count for _, count in hosts)
    shown = ", ".join(line.words for line, _ in hosts[:SHOWN])
    more = ", …" if len(hosts) > SHOWN else ""
    yield LaunchPlan(
        who=NOBODY,
        source=first.source,
        quote=f"a hostfile with {counted(slots, 'slot')} ({shown}{more})",
        ranks=slots,
        slots=slots,
        nodes=len(hosts),
        placed=tuple(placed),
    )


def specification(lines: Lines) -> Iterator[Statement]:
    """Read how many pods a job's specification asks for, to the end of its document."""
    if _KIND.match(lines.next.words) is None:
        return
    first = lines.take()
    pods, each, role = 0, 1, ""
    for line in lines:
        if line.words == "---":
            break
        if line.words in {"Launcher:", "Master:", "Worker:"}:
            role = line.words
        if match := _COUNT.match(line.words):
            if match["key"] in {"replicas", "completions"}:
                pods += 0 if role == "Launcher:" else int(match["count"])
            else:
                each = int(match["count"])
    if pods:
        source, ranks = first.source, pods * each
        quote = f"{first.words}: {pods} pods of {each} ranks"
        yield LaunchPlan(who=NOBODY, source=source, quote=quote, ranks=ranks, nodes=pods)
