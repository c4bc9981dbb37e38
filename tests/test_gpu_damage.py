"""Damaged prints of GPUs cost only themselves, and no time."""

from __future__ import annotations

import time

import pytest
from gpu_docs import (
    CSV,
    DMON,
    ERRORS,
    LINKS,
    OLD,
    PMON,
    QUERY,
    READERS,
    TOPOLOGY,
    document,
    gaps,
    gpus,
    listed,
    node,
    row,
    table,
)
from hypothesis import given
from hypothesis import strategies as st

from whyhang.analyzer.facts import Gap, Gpu
from whyhang.collectors.gpu.xml import XmlReader

DOCUMENTS = (node(count=2), QUERY, CSV, table(row(0), listed(0, 4)), OLD, DMON, PMON, LINKS, ERRORS)


@given(data=st.data())
def test_damage_is_never_an_exception(data: st.DataObject) -> None:
    """Whatever is cut out or put in, readers give GPUs and gaps and nothing else."""
    text = data.draw(st.sampled_from(DOCUMENTS))
    start = data.draw(st.integers(0, len(text)))
    stop = data.draw(st.integers(start, min(len(text), start + 400)))
    noise = data.draw(st.sampled_from(["", "\0", "|", "<gpu id='x'>", "GPU 0:", "\n", "]]>", "é"]))
    one = document(text[:start] + noise + text[stop:])

    for reader in READERS:
        if reader.sniff(one):
            assert all(isinstance(fact, Gpu | Gap) for fact in reader.read(one))


ROCM = "GPU  Temp  AvgPwr  GPU%\n0    39.0c  42.0W   0%\nGPU[0]\t\t: PCI Bus: 0000:03:00.0\n"
HOSTS = "==== node7 ====\nroot@node7:~# nvidia-smi\nhostname: node7\n==> logs/node7/smi.txt <==\n"
DCGM_DIAG = """\
| Diagnostic  | Result |
| PCIe  | Fail - GPU: 2 |
"""
APPS = "GPU-11112222-0000-4000-8000-000000000001, 48213, /usr/bin/python3, 65710\n"
LOST = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
EVERY = (*(*DOCUMENTS, TOPOLOGY, PMON, ROCM), *(HOSTS + table(row(0)), DCGM_DIAG, APPS, LOST))
RUNS = ("\t", "A1", "1", "|", " |", ", ", ":", "1 ", "GPU 0: ", "Link 0: ", "x/1(1M) ", "a.", "=")


@pytest.mark.parametrize("run", RUNS)
def test_no_run_of_characters_takes_long(run: str) -> None:
    """Each line may have thousands of anything in it, in front, at its end or within."""
    for text in EVERY:
        lines = text.split("\n")
        for size in (600, 16_000, 100_000):  # the last is longer than a line may be
            long = run * (size // len(run))
            within = [line.replace(" ", f" {long} ", 1) for line in lines]
            behind = [f"{line}{long}" for line in lines[:6]] + lines[6:]
            below = [f"{line}\n{long}" for line in lines[:6]] + lines[6:]
            for spoilt in (within, behind, below) if size < 100_000 else (behind,):
                started = time.process_time()
                troubles = " ".join(map(str, gaps("\n".join(spoilt))))
                assert time.process_time() - started < 1
                assert "would take longer" not in troubles
                assert "the reader failed" not in troubles


def test_a_spoilt_line_costs_only_itself() -> None:
    """The rows beside it are read, and what was cut off is said."""
    text = table(f"{row(0)}\n|{'A1' * 50_000}\n{row(1)}")

    assert [gpu.index for gpu in gpus(text)] == [0, 1]
    assert "1 line is longer than 16,384 characters" in str(gaps(text)[0])
    assert [gpu.index for gpu in gpus(table(row(0)).replace("  ", "\t" * 5000))] == [0]
    (gpu, _) = gpus(QUERY.replace("Driver Version", f"{'x' * 5000}\nDriver Version"))
    assert (gpu.busy, gpu.index) == (100, None)


def test_deep_nesting_is_survived() -> None:
    """Two hundred thousand elements in each other are read past."""
    block = b"<gpu id='x'>" + b"<a>" * 200_000 + b"</a>" * 200_000 + b"</gpu>"
    one = document(b"<nvidia_smi_log>" + block + b"</nvidia_smi_log>")

    assert [type(fact) for fact in XmlReader().read(one)] == [Gpu]
