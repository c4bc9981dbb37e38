"""Ranks that met through a file were told addresses at which nobody listens.

A file store is not emptied between runs. What it holds from the last one is read as if it were of
this one: addresses of processes that are gone, so that connections are refused although all ranks
have found each other's keys.
"""

from collections.abc import Iterator

from whyhang.analyzer import queries
from whyhang.analyzer.queries import Case, Hit, Signature

_FILE = r"\b(?:init_method|dist_url|dist_backend_url|rendezvous|store)\b.{0,40}file://(?P<path>/[^\s'\",;)]+)"
_REFUSED = r"gloo/transport/tcp/[\w.]+:\d+\].{0,300}Connection refused"


def when(case: Case) -> Iterator[Hit]:
    """Yield one hit that blames nobody, unless a rank that failed of itself may be the one gone."""
    files = list(case.job.lines_with((_FILE,)))
    refused = list(case.job.lines_with((_REFUSED,)))
    failed = any(line.raised is not None and line.raised.is_own for line in case.job.lines)
    killed = any(state.end is not None and state.end.signal for state in case.states)
    if files and refused and not failed and not killed:
        yield Hit(
            affected=queries.waiters_for(case),
            evidence=(queries.cite_line(files[0]), *map(queries.cite_line, refused[:2])),
            names_culprit=False,
            fields={"path": files[0].fields["path"]},
        )


SIGNATURE = Signature(
    id="stale-meeting-file",
    category="init-file-store",
    level="setup",
    title="The ranks met through {path}, which gave them addresses where nobody listens",
    when=when,
    patterns=(_FILE, _REFUSED),
    means=(
        "The keys were found and the connections refused: the file most likely holds the "
        "addresses of an earlier run."
    ),
    confidence="likely",
    remedies=(
        "Remove {path} and start again.",
        "Give each run a file of its own, named after the job's id, or use env:// with torchrun.",
    ),
    next_steps=("ls -l --time-style=full-iso {path}  # is it older than the job?",),
    matches=(
        "INFO:root:rank 0 of 2, init_method file:///scratch/sync/rendezvous",
        '    dist.init_process_group("gloo", init_method="file:///scratch/meet", rank=rank)',
        (
            "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:799] connect "
            "[127.0.1.1]:38255: Connection refused"
        ),
        (
            "[/w/gloo/gloo/transport/tcp/debug_logger.cc:9] ERROR failed to connect, willRetry=1, "
            "retry=1, remote=[127.0.0.1]:44928$1, error=SO_ERROR: Connection refused"
        ),
    ),
    misses=(
        "Looking in links: file:///opt/wheels",
        "RuntimeError: Gloo connectFullMesh failed with [/gloo/pair.cc:144] no error",
    ),
)
