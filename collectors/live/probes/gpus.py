"""The GPUs of the host of a live job: asked beside the stacks, at every look.

A child process asks NVML (``collectors/gpu/nvml_child.py``); where that cannot be, nvidia-smi is
run. A driver with a sick GPU answers late or never, and what waits for it may not even be
killed: one that sleeps in the kernel as its time is up is evidence of its own.
"""

import shutil
import sys
from pathlib import Path

from whyhang.analyzer.facts import DriverSilence, Gap, Source, Who
from whyhang.collectors.gpu.nvml_child import NO_NVML
from whyhang.collectors.live.probes.probe import Collected, Probe, Site
from whyhang.collectors.live.programs import Outcome, TimedCommand, run, run_all

LIMIT = 3.0
"""Seconds for one program; what sleeps in the kernel then is taken to hang."""

_PROBE = Path(__file__).parents[2] / "gpu" / "nvml_child.py"
_SIGNS = ("/dev/nvidiactl", "/proc/driver/nvidia/version")
_SMI = "nvidia-smi"
_QUERY = (
    "--query-gpu=timestamp,index,uuid,pci.bus_id,name,driver_version,pstate,utilization.gpu,"
    "utilization.memory,power.draw,power.limit,clocks.sm,temperature.gpu,memory.used,"
    "memory.total,ecc.errors.uncorrected.volatile.total,compute_mode,mig.mode.current"
)
_APPS = "--query-compute-apps=gpu_uuid,pid,process_name,used_memory"
_COST = (
    "a rank that never launched its kernel cannot be told from one whose kernel waits, and a "
    "broken GPU is not seen"
)


def collect(site: Site, collected: Collected) -> None:
    """Ask at each look, as long as there are answers."""
    asked = _Asked(site, collected)
    for number in range(site.options.looks):
        # where one look has come, nobody waits for another to begin
        if not site.wait_for(number) or (collected.files and site.over) or not asked.at(number):
            break
    if collected == Collected() and _uses_gpus(site):
        collected.facts.append(_nothing_to_ask(site.hostname))


class _Asked:
    """Asks, and keeps what comes back."""

    def __init__(self, site: Site, collected: Collected) -> None:
        self._site = site
        self._collected = collected
        self._smi = shutil.which(_SMI)
        self._has_nvml = self._smi is not None or any(Path(sign).exists() for sign in _SIGNS)

    def at(self, look: int) -> bool:
        """Ask once; return whether it is worth asking again."""
        if self._has_nvml:
            outcome = run(sys.executable, "-I", str(_PROBE), limit=LIMIT)
            self._has_nvml = outcome.code == 0 and outcome.output.startswith(b'{"nvml"')
            if self._has_nvml:
                self._keep(f"gpus.look{look}.nvml.json", outcome, look)
                return True
            if outcome.timed_out:
                self._give_up(outcome)
                return False
            if self._smi is None and outcome.code != NO_NVML:
                why = f"the child that asks NVML failed (exit status {outcome.code})"
                self._gap(outcome, why)
        return self._smi is not None and self._ask_smi(self._smi, look)

    def _ask_smi(self, smi: str, look: int) -> bool:
        names = {
            _command(smi, "-q", "-x"): f"gpus.look{look}.xml",
            _command(smi, "nvlink", "-e"): f"nvlink-errors.look{look}.txt",
        }
        if look == 0:
            names[_command(smi, "nvlink", "-s")] = "nvlink.txt"
            names[_command(smi, "topo", "-m")] = "topology.txt"
        outcomes = {names[o.command]: o for o in run_all(names, width=len(names))}
        state = outcomes[f"gpus.look{look}.xml"]
        if not _is_good(state) and not state.timed_out:
            names = {
                _command(smi, _QUERY, "--format=csv"): f"gpus.look{look}.csv",
                _command(smi, _APPS, "--format=csv"): f"gpu-processes.look{look}.csv",
            }
            outcomes |= {names[o.command]: o for o in run_all(names, width=len(names))}
        for name, outcome in sorted(outcomes.items(), key=lambda item: item[1] is not state):
            if outcome.timed_out:
                self._give_up(outcome, name, look)
            elif (_is_good(outcome) or name.endswith((".xml", ".csv"))) and _printed(outcome):
                self._keep(name, outcome, look)
            elif outcome is state:
                self._gap(outcome, f"it printed nothing (exit status {outcome.code})")
        return not state.timed_out

    def _give_up(self, outcome: Outcome, name: str = "", look: int = 0) -> None:
        """Tell of a program that was late, and whether the driver holds it."""
        if b"</gpu>" in outcome.output:
            self._keep(name, outcome, look)
        words = _words(outcome.command)
        if outcome.asleep is not None:
            held = f" in {outcome.asleep}" if outcome.asleep else ""
            self._collected.facts.append(
                DriverSilence(
                    says=f"{words} did not come back in {outcome.seconds:.1f} s and sleeps in the "
                    f"kernel (state D{held})",
                    who=Who(host=self._site.hostname),
                    source=Source(file="claims.json"),
                )
            )
            self._collected.touched.append(
                f"left {words} behind: it sleeps in the kernel, past any signal"
            )
        elif not any(file.entry.path.endswith((".xml", ".json")) for file in self._collected.files):
            self._gap(outcome, f"it did not come back within {outcome.seconds:.1f} s and was ended")

    def _keep(self, name: str, outcome: Outcome, look: int) -> None:
        kind = "gpu" if _is_good(outcome) else "gpu-failed"
        data, began = _printed(outcome), outcome.began
        self._collected.files.append(self._site.file(name, kind, data, look=look, taken_at=began))

    def _gap(self, outcome: Outcome, why: str) -> None:
        self._collected.facts.append(
            Gap(
                what=f"asking for the GPUs of {self._site.hostname} ({_words(outcome.command)})",
                why=why,
                cost=_COST,
                remedy="Run nvidia-smi by hand: where it hangs too, look at dmesg for NVRM and Xid",
                who=Who(host=self._site.hostname),
            )
        )


def _command(*arguments: str) -> TimedCommand:
    return TimedCommand(arguments=arguments, limit=LIMIT)


def _is_good(outcome: Outcome) -> bool:
    return outcome.code == 0 or b"<gpu" in outcome.output


def _printed(outcome: Outcome) -> bytes:
    """Return what a program printed; its errors matter where it failed."""
    data = outcome.output + (b"" if _is_good(outcome) else outcome.errors.encode())
    return data if data.strip() else b""


def _words(command: TimedCommand) -> str:
    """Name a program as a person would type it."""
    if command.arguments[-1] == str(_PROBE):
        return "NVML"
    return " ".join((_SMI, *(word.partition("=")[0] for word in command.arguments[1:])))


def _uses_gpus(site: Site) -> bool:
    """Return whether ranks have an NVIDIA device open, or threads that belong to one."""
    return any(
        any("/dev/nvidia" in text for text in process.descriptors)
        or any(thread.name.startswith(("pt_nccl", "cuda-")) for thread in process.threads)
        for process in site.ranks_seen
    )


def _nothing_to_ask(hostname: str) -> Gap:
    return Gap(
        what=f"the GPUs of {hostname}",
        why="the job uses GPUs, and neither NVML nor nvidia-smi is to be had here",
        cost=_COST,
        remedy="Run whyhang where nvidia-smi works: on the host, or in a container with "
        "NVIDIA_DRIVER_CAPABILITIES=utility",
        who=Who(host=hostname),
    )


PROBE = Probe(name="the GPUs", limit=2 * LIMIT, collect=collect)
