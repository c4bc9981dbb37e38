"""The child that says what GPUs have done so far: one line of JSON for each line that it is sent.

Before these comes an empty one: it is there.

Run as ``python -I counters.py [FOLDER]``; FOLDER is where ``pynvml`` lies. NVML
is opened once, so that a look costs a few calls. It ends with its standard input, and at once with
``NO_NVML`` where there is no library or no driver. Whoever asks does not wait for it: a driver with
a sick GPU may never answer.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from typing import Any

NO_NVML = 3
"""Exit status where NVML cannot be asked at all."""


def main(folders: list[str]) -> int:
    """Answer until nobody asks any more."""
    sys.path[:0] = folders
    try:
        import pynvml  # noqa: PLC0415 - its lack is an answer

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except Exception:  # noqa: BLE001 - whatever it is, there is nothing to count
        return NO_NVML
    answer: dict[str, Any] = {}
    while True:
        sys.stdout.write(json.dumps(answer, separators=(",", ":")) + "\n")
        sys.stdout.flush()
        if not sys.stdin.readline():
            return 0
        answer = {"gpus": [_counters(pynvml, index) for index in range(count)]}


def _counters(nvml: Any, index: int) -> dict[str, Any]:
    """Return what one GPU tells: energy in mJ, its limit in mW, memory traffic in per cent."""
    answers: dict[str, Any] = {}
    for name, ask in _QUESTIONS.items():
        with contextlib.suppress(Exception):  # what a board does not have is left out
            answers[name] = ask(nvml, nvml.nvmlDeviceGetHandleByIndex(index))
    return answers


_QUESTIONS: dict[str, Callable[[Any, Any], Any]] = {
    "pids": lambda nvml, gpu: [p.pid for p in nvml.nvmlDeviceGetComputeRunningProcesses(gpu)],
    "energy": lambda nvml, gpu: nvml.nvmlDeviceGetTotalEnergyConsumption(gpu),
    "limit": lambda nvml, gpu: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu),
    "traffic": lambda nvml, gpu: nvml.nvmlDeviceGetUtilizationRates(gpu).memory,
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
