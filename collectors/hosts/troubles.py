"""Why a host brought nothing, as gaps: what was tried, why it failed, what to do."""

import re

from whyhang.analyzer.facts import Gap, Who

COST = "what its ranks do is known from the other hosts only"

_SSH = (
    (
        ("Host key verification failed", "host key is known", "REMOTE HOST IDENTIFICATION"),
        "ssh does not know its host key, and whyhang accepts none unseen",
        "Connect once by hand and compare the key (ssh {name}), or add it to known_hosts",
    ),
    (
        ("Permission denied", "Too many authentication failures"),
        "ssh was refused: no key or ticket of this user is accepted there",
        "Let `ssh -o BatchMode=yes {name} true` work (ssh-copy-id, ssh-agent), or collect by hand",
    ),
    (
        ("Could not resolve hostname", "Name or service not known"),
        "its name cannot be resolved here",
        "Check the name, or give addresses with --hosts",
    ),
    (
        ("Connection refused",),
        "nothing listens for ssh there",
        "Start sshd there, or run whyhang collect on it and read the bundles together",
    ),
    (
        ("during banner exchange",),
        "something takes the connection there and does not answer as sshd",
        "Look at its sshd and its load: a host that is out of memory does so, too",
    ),
    (
        ("No route to host", "Network is unreachable", "Connection timed out", "timed out"),
        "it cannot be reached over the network",
        "Look whether it is up (ping, the scheduler's node state, its console)",
    ),
    (
        ("Connection reset", "Connection closed", "closed by remote host", "Broken pipe"),
        "the connection was closed",
        "Look whether it is up, and at its sshd",
    ),
)
_SLURM = (
    (
        ("Communication connection failure", "Unable to contact slurmd", "Task launch for"),
        "Slurm could not start anything there: its slurmd does not answer",
        "Look at it: scontrol show node {name}; sinfo --list-reasons",
    ),
    (
        ("Access/permission denied", "Invalid user id", "Invalid job credential"),
        "Slurm lets only the user of a job run something beside it",
        "Run whyhang as the user of the job",
    ),
    (
        ("Invalid job id", "has expired", "Job/step already completing"),
        "the job has ended, there or altogether",
        "How it ended: sacct --jobs JOB --format=JobID,State,ExitCode,NodeList",
    ),
    (
        ("unrecognized option", "Requested node configuration is not available"),
        "srun cannot start a step beside those of the job",
        "Slurm 20.11 or newer can (srun --overlap); else collect on each host by hand",
    ),
)
_KUBERNETES = (
    (
        ("executable file not found", "no such file or directory", "exec format error"),
        "its container has no shell",
        "Bring one beside it, with Python in it: --k8s-debug IMAGE",
    ),
    (
        ("orbidden", "cannot create resource", "denied the request"),
        "Kubernetes does not let you run something in it",
        "Ask for the right to create pods/exec: docs/kubernetes.md has the whole role",
    ),
    (
        ("container not found", "NotFound", "is not running", "completed pod"),
        "it, or its container, does not run any more",
        "Look at how it ended: kubectl describe pod {name}; kubectl logs {name} --previous",
    ),
    (
        ("error dialing backend", "connection refused", "i/o timeout", "upgrade connection"),
        "the kubelet of its node does not answer",
        "Look at the node: kubectl get pod {name} --output=wide; kubectl describe node NODE",
    ),
    (
        ("ErrImagePull", "ImagePullBackOff", "timed out waiting for the condition"),
        "the image of the debugging container could not be started",
        "Give an image that the node can pull: --k8s-debug IMAGE",
    ),
)
_RAY = (
    (
        ("ActorUnschedulable", "node has died", "node it was", "ActorDied", "died"),
        "Ray cannot start an actor there: the node has gone, or its raylet does not answer",
        "Look at it: ray list nodes",
    ),
)
_BY_KIND = {"slurm": _SLURM, "kubernetes": _KUBERNETES, "ray": _RAY}
_LONGEST = 200


def _gap(name: str, why: str, remedy: str, what: str = "looking at host") -> Gap:
    return Gap(what=f"{what} {name}", why=why, cost=COST, remedy=remedy, who=Who(host=name))


def silent(name: str, kind: str, seconds: float) -> Gap:
    """Return that a host gave no sign of life."""
    return _gap(
        name,
        f"it gave no sign of life within {seconds:g} s ({kind})",
        "Look whether it is up (ping, the scheduler's node state, its console)",
    )


def late(name: str, why: str, seconds: float) -> Gap:
    """Return that a host was not done in time."""
    return _gap(name, f"{why} within {seconds:g} s", "Give it more with --timeout")


def unfinished(name: str, seconds: float) -> Gap:
    """Return that a host was not done in time, and what it had sent before counts."""
    return Gap(
        what=f"a further look at host {name}",
        why=f"it was not done within the {seconds:g} s for all hosts",
        cost="what its ranks do is known from what it sent before",
        remedy="Give it more with --timeout",
        who=Who(host=name),
    )


def clock_differs(name: str, ahead: float) -> Gap:
    """Return that the clock of a host is not that of the others."""
    return Gap(
        what=f"comparing times of host {name}",
        why=f"its clock is {abs(ahead):.1f} s {'ahead of' if ahead > 0 else 'behind'} this host's",
        cost="what its logs say happened before or after events on other hosts is off by as much",
        remedy="Set the clocks (chronyc tracking there)",
        who=Who(host=name),
    )


def other_job(name: str, ranks: int) -> Gap:
    """Return that the hosts run another job, too."""
    return Gap(
        what=f"looking at the job {_plain(name)} ({ranks} processes)",
        why="another job has more processes on these hosts, and one is looked at a time",
        cost="it was left out",
        remedy="On one of its hosts: whyhang PID of one of its processes",
    )


def no_python(name: str, kind: str) -> Gap:
    """Return that a host has nothing that whyhang runs in."""
    remedy = "Make one available there (module load, PATH of a shell that is no login)"
    if kind == "kubernetes":
        remedy = "Bring one beside it: --k8s-debug IMAGE"
    return _gap(name, "it has no Python of version 3.10 or newer on PATH", remedy)


def no_whyhang(name: str, python: str) -> Gap:
    """Return that a host has a Python, and whyhang cannot be run in it."""
    return _gap(
        name,
        f"whyhang is not installed there for its Python {_plain(python)}, and what is installed "
        "here does not run there",
        "pip install whyhang there, or put a Python like the one here on its PATH",
    )


def no_process(name: str) -> Gap:
    """Return that a host was reached and nothing of the job is there."""
    return _gap(
        name,
        "no process of the job was found there",
        "Its ranks may have ended or never begun: look at their logs there",
    )


def not_all_known(found: int, count: int) -> Gap:
    """Return that the job runs on more hosts than could be learnt."""
    return Gap(
        what=f"looking at {count - found} more hosts of the job",
        why=f"it runs on {count}, and which they are could be learnt of {found} only",
        cost="what their ranks do is not known",
        remedy="name them: whyhang PID --hosts n[1-8], or collect on each by hand",
    )


def unreadable(name: str, why: str) -> Gap:
    """Return that what a host sent is not to be used."""
    return _gap(name, f"what it sent cannot be read: {why}", "Collect there by hand")


def said(name: str, why: str, remedy: str) -> Gap:
    """Return what a far side says that went wrong there."""
    return _gap(name, _plain(why), _plain(remedy).rstrip("."))


def ended(name: str, kind: str, code: int | None, errors: str, *, alive: bool) -> Gap:
    """Return why the command that reaches a host has ended, from what it printed."""
    lines = [line for line in errors.splitlines() if line.strip()]
    for marks, why, remedy in _BY_KIND.get(kind, _SSH):
        if any(mark in errors for mark in marks):
            return _gap(name, why, remedy.format(name=name))
    if lines:
        return _gap(name, f"{kind} said: {_plain(lines[-1])}", "")
    how = "was killed" if code is None or code > 128 else f"ended with code {code}"
    return _gap(name, f"what ran there {how}" if alive else f"the command {how}", "")


def _plain(text: str) -> str:
    words = re.sub(r"[^\x20-\x7e]+", " ", text).split()
    return " ".join(words)[:_LONGEST]
