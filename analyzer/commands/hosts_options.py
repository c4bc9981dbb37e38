"""On which hosts to look: the options of all commands that look at processes."""

import argparse

GIVEN = ("slurm", "hosts", "k8s", "ray")
"""Each of these options says by itself which hosts are meant; there is no need for a PID."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def given(options: argparse.Namespace) -> str | None:
    """Return which of the options names the hosts, or None."""
    return next((name for name in GIVEN if getattr(options, name, None) is not None), None)
