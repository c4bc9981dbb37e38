"""The GPUs of the host of a live job: asked beside the stacks, at every look.

A child process asks NVML (``collectors/gpu/nvml_child.py``); where that cannot be, nvidia-smi is
run. A driver with a sick GPU answers late or never, and what waits for it may not even be
killed: one that sleeps in the kernel as its time is up is evidence of its own.
"""

import shutil
import sys
from pathlib import Path

from whyhang.analyzer.facts import DriverSilence, Gap, Record, Who
from whyhang.collectors.files.claims import CLAIMS
from whyhang.collectors.gpu.nvml_child import NO_NVML
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.programs import Outcome, run
from whyhang.collectors.live.words import gap

LIMIT = 3.0
"""Seconds for one program; what sleeps in the kernel then is taken to hang."""

_CHILD = Path(__file__).parents[2] / "gpu" / "nvml_child.py"
_SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia/version")


class _Tool(Record):
    """What is asked, as a person would call it; ``ending`` is that of the files it prints."""

    words: str
    arguments: tuple[str, ...]
    ending: str


def collect(site: Site, collected: Collected) -> None:
    """Ask at each look, as long as there are answers."""
    tools = _tools()
    for look in range(site.options.looks):
        # where one look has come, nobody waits for another to begin
        if not site.wait_for(look) or (collected.files and site.over):
            break
        while tools:
            tool, *others = tools
            outcome = run(*tool.arguments, limit=LIMIT)
            kept = _keep(site, collected, tool, outcome, look)
            if outcome.timed_out:
                _give_up(site, collected, tool, outcome)
                return
            if kept:
                break
            if not others and outcome.code != NO_NVML:
                why = f"it printed nothing that tells of them (exit status {outcome.code})"
                collected.facts.append(_gap(site, tool, why))
            tools = others
    if collected == Collected() and _uses_gpus(site):
        about = Who(host=site.hostname)
        collected.facts.append(gap("no-gpu-tool", about, host=site.hostname))


def _tools() -> list[_Tool]:
    """List what may be asked here; the next one only where one has no answer."""
    tools: list[_Tool] = []
    smi = shutil.which("nvidia-smi")
    if smi is not None or any(Path(sign).exists() for sign in _SIGNS):
        child = (sys.executable, "-I", str(_CHILD))
        tools.append(_Tool(words="NVML", arguments=child, ending="nvml.json"))
    if smi is not None:
        query = (smi, "-q", "-x")
        tools.append(_Tool(words="nvidia-smi -q -x", arguments=query, ending="xml"))
    return tools


def _keep(site: Site, collected: Collected, tool: _Tool, outcome: Outcome, look: int) -> bool:
    """Keep what a tool printed, if it is of use; nvidia-smi says in words what fails."""
    good = outcome.code == 0 or b"<gpu" in outcome.output
    data = outcome.output + (b"" if good else outcome.errors.encode())
    cut_off = outcome.timed_out and b"</gpu>" not in outcome.output
    if cut_off or not data.strip() or not (good or tool.ending == "xml"):
        return False
    name, kind = f"gpus.look{look}.{tool.ending}", "gpu" if good else "gpu-failed"
    collected.files.append(site.file(name, kind, data, look=look, taken_at=outcome.began))
    return True


def _give_up(site: Site, collected: Collected, tool: _Tool, outcome: Outcome) -> None:
    """Tell of a program that was late, and whether the driver holds it."""
    late = f"did not come back in {outcome.seconds:.1f} s"
    if outcome.asleep is not None:
        held = f" in {outcome.asleep}" if outcome.asleep else ""
        says = f"{tool.words} {late} and sleeps in the kernel (state D{held})"
        silence = DriverSilence(says=says, who=Who(host=site.hostname), source=CLAIMS)
        collected.facts.append(silence)
        left = f"left {tool.words} behind: it sleeps in the kernel, past any signal"
        collected.touched.append(left)
    elif not collected.files:
        collected.facts.append(_gap(site, tool, f"it {late} and was ended"))


def _gap(site: Site, tool: _Tool, why: str) -> Gap:
    about = Who(host=site.hostname)
    return gap("gpus", about, host=site.hostname, tool=tool.words, why=why)


def _uses_gpus(site: Site) -> bool:
    """Return whether ranks have an NVIDIA device open, or threads that belong to one."""
    return any(
        any("/dev/nvidia" in text for text in process.descriptors)
        or any(thread.name.startswith(("pt_nccl", "cuda-")) for thread in process.threads)
        for process in site.ranks_seen
    )


PROBE = Probe(name="the GPUs", limit=2 * LIMIT, collect=collect)
