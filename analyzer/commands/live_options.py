"""How to look at processes: the options of all commands that do.

They stand by themselves: who names a path only has no need of what looks at processes.
"""

import argparse
import contextlib
from collections.abc import Callable

NATIVE = ("auto", "always", "never")
GIVEN = ("slurm", "hosts", "k8s", "ray")
"""Each of these options says by itself which hosts are meant; there is no need for a PID."""


def add_arguments(parser: argparse.ArgumentParser, *, hosts: bool = True) -> None:
    """Declare how to take snapshots of processes, and on which ``hosts``."""
    group = parser.add_argument_group("looking at processes")
    group.add_argument(
        "--looks",
        type=_count,
        default=2,
        metavar="N",
        help="take the stacks N times, to tell moving ranks from stuck ones (default 2)",
    )
    group.add_argument(
        "--interval",
        type=seconds(0, 3600),
        default=1.0,
        metavar="S",
        help="seconds between two looks (default 1.0)",
    )
    group.add_argument(
        "--native",
        choices=NATIVE,
        default="auto",
        help="C and C++ frames too, which takes about a second a process; "
        "auto: where the Python stack leaves the wait open (default)",
    )
    group.add_argument(
        "--ask-recorders",
        action="store_true",
        help="write to the job: ask each rank for its flight recorder's dump, through the pipe "
        "that TORCH_NCCL_DEBUG_INFO_PIPE_FILE names",
    )
    group.add_argument(
        "--debug-server",
        metavar="HOST:PORT",
        help="ask torch's debug server for the flight recorders of all ranks",
    )
    group.add_argument(
        "--no-store",
        action="store_true",
        help="do not connect to the job's store (MASTER_ADDR:MASTER_PORT). Otherwise its keys are "
        "listed, as one more client that only asks: which ranks have joined. Nothing is set",
    )
    group.add_argument(
        "--probe",
        action="store_true",
        help="try, from this host only, the place where the ranks are to meet: resolve its name, "
        "connect to its port, and send pings, a small one and up to two as large as the network "
        "says it carries (large ones that vanish hang a job at its first large message)",
    )
    group.add_argument(
        "--timeout",
        type=seconds(0, 3600),
        metavar="S",
        help="limit of each single grab in seconds (default 15); where many hosts are looked at, "
        "of all of it together (default 30, and as long as --looks and --interval ask for)",
    )
    if hosts:
        add_host_arguments(parser)


def _count(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 100:
        raise argparse.ArgumentTypeError(f"must be a number between 1 and 100, not {text}")
    return int(text)


def seconds(least: int, most: int) -> Callable[[str], float]:
    """Return what reads a number of seconds within these limits."""

    def read(text: str) -> float:
        with contextlib.suppress(ValueError):
            if least <= float(text) <= most:
                return float(text)
        raise argparse.ArgumentTypeError(f"must be between {least} and {most} seconds, not {text}")

    return read


def add_host_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare on which hosts to look."""
    group = parser.add_argument_group(
        "on many hosts",
        "A PID of a job that runs on more hosts reaches the others by itself, where that is "
        "possible without a password. Nothing has to be installed there.",
    )
    one = group.add_mutually_exclusive_group()
    one.add_argument(
        "--slurm", metavar="JOB[.STEP]", help="all nodes of a Slurm job or step, by srun"
    )
    one.add_argument(
        "--hosts",
        metavar="HOSTS",
        help="these hosts, by ssh: n[1-64], n1,n2, @group (ClusterShell), a hostfile, or - for a "
        "list on standard input",
    )
    one.add_argument(
        "--k8s",
        metavar="SELECTOR",
        help="the pods that a label selector means, or pytorchjob/NAME, jobset/NAME, mpijob/NAME, "
        "raycluster/NAME, leaderworkerset/NAME, by kubectl",
    )
    one.add_argument(
        "--ray",
        nargs="?",
        const="auto",
        metavar="ADDRESS",
        help="all nodes of a Ray cluster (default: the one that this host belongs to)",
    )
    group.add_argument("-n", "--namespace", metavar="NS", help="with --k8s: the namespace")
    group.add_argument("-c", "--container", metavar="C", help="with --k8s: the container")
    group.add_argument(
        "--whole-logs",
        action="store_true",
        help="have hosts send whole logs (8 MiB of each), not only the lines that matter: "
        "for --save",
    )
    group.add_argument(
        "--k8s-debug",
        metavar="IMAGE",
        help="with --k8s: not by exec, but by an ephemeral container of this image (one with "
        "Python 3.10 or newer) beside the job's, for images without Python or pods that forbid "
        "ptrace. This changes the pods: what was added stays in their description",
    )
    one.add_argument("--local", action="store_true", help="keep to this host")
    group.add_argument(
        "--dry-run",
        action="store_true",
        help="print which hosts would be reached, and by which command; reach none",
    )


def given_hosts(options: argparse.Namespace) -> str | None:
    """Return which of the options names the hosts, or None."""
    return next((name for name in GIVEN if getattr(options, name, None) is not None), None)
