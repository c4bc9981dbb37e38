"""Which torch and NCCL a job runs, by the files its frames come from; nothing is imported."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from whyhang.collectors.live.proc import Proc
from whyhang.collectors.live.snapshot import Dump

_TORCH = re.compile(rb'"filename": "([^"\n]+)/torch/')
_VERSION = re.compile(r"^__version__ = ['\"]([^'\"]+)['\"]", re.MULTILINE)
_NCCL = re.compile(r"^nvidia_nccl_cu\d+-([\d.]+)\.dist-info$")


def versions(proc: Proc, dumps: Iterable[Dump]) -> dict[str, str]:
    """Give ``torch_version`` and ``nccl_version`` where the installation tells them.

    NCCL is that of the Python package; a library put in front of it is not seen.
    """
    for dump in dumps:
        found = _TORCH.search(dump.data)
        if found is None:
            continue
        folder = proc.path_for(dump.pid, found.group(1).decode(errors="replace"))
        try:
            with open(f"{folder}/torch/version.py", encoding="utf-8") as stream:  # noqa: PTH123
                text = stream.read(10_000)
            names = os.listdir(folder)  # noqa: PTH208
        except (OSError, ValueError):
            continue
        torch = _VERSION.search(text)
        nccl = next((match.group(1) for name in names if (match := _NCCL.match(name))), None)
        told = {"torch_version": torch.group(1) if torch else None, "nccl_version": nccl}
        return {about: value for about, value in told.items() if value}
    return {}
