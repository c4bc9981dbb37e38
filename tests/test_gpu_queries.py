"""GPUs as nvidia-smi -q and its CSV print them."""

from __future__ import annotations

import pytest
from gpu_docs import CSV, QUERY, READERS, document, gpus


def test_query_text() -> None:
    """Labels and sections of ``nvidia-smi -q`` are read, with what stands around it left alone."""
    one, two = gpus("uname\n" + QUERY)

    assert (one.index, one.uuid, one.bus, one.busy, one.memory_busy) == (
        *(0, "GPU-aaaa", "0000:1b:00", 100, 3),
    )
    assert (one.ecc_uncorrected, one.remap_pending) == (3, True)
    assert (one.recovery, one.compute_mode, one.temperature) == ("Reset", "Exclusive_Process", 88)
    assert one.reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (one.power, one.sm_clock) == (240.42, 345)
    assert [(p.pid, p.memory, p.graphics) for p in one.processes or ()] == [
        (48213, 1200, False),
        (48300, 20, True),
    ]
    assert (two.index, two.trouble, two.processes) == (1, "utilization.gpu: Unknown Error", ())


def test_csv_with_units_and_samples() -> None:
    """Any columns in any order; a GPU that comes again is a later look."""
    devices = gpus(CSV, "whatever.log")

    assert [(g.index, g.look, g.busy) for g in devices] == [
        *((0, 0, 100), (1, 0, 0), (0, 1, 98), (1, 1, None))
    ]
    assert devices[1].reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (devices[1].power, devices[1].memory_used, devices[1].sm_clock) == (71.02, 9, 1980)
    assert devices[0].taken_at == pytest.approx(1782911213.123)
    assert "requires reset" in (devices[3].trouble or "")


def test_csv_without_units() -> None:
    """``nounits`` takes the units out of the values and leaves them in the header."""
    text = "index, utilization.gpu [%], memory.used [MiB], ecc.errors.uncorrected.volatile.total\n"
    (gpu,) = gpus(text + "3, 57, 1024, 2\n", "x.csv")

    assert (gpu.index, gpu.busy, gpu.memory_used, gpu.ecc_uncorrected) == (3, 57, 1024, 2)


def test_csv_of_processes() -> None:
    """Rows of one GPU come together; a name with commas does not shift the columns."""
    text = """gpu_uuid, pid, process_name, used_gpu_memory [MiB]
GPU-a, 100, /usr/bin/python3, 65710 MiB
GPU-a, 101, [Not Found], [N/A]
GPU-b, 102, ray::worker, x=1, 10 MiB
"""
    one, two = gpus(text)

    assert [(p.pid, p.name, p.memory) for p in one.processes or ()] == [
        (100, "/usr/bin/python3", 65710),
        (101, "", None),
    ]
    assert (two.uuid, [(p.pid, p.memory) for p in two.processes or ()]) == ("GPU-b", [(102, 10)])


def test_processes_without_a_header() -> None:
    """``noheader`` rows of --query-compute-apps say what they are."""
    row_ = "GPU-11112222-0000-4000-8000-000000000001, 48213, /usr/bin/python3, 65710\n"
    (gpu,) = gpus(row_)

    assert [(p.pid, p.memory) for p in gpu.processes or ()] == [(48213, 65710)]


def test_other_csv_is_left_alone() -> None:
    """A table of a training run is no state of GPUs."""
    for text in ("step,loss,lr\n1,2.0,0.1\n", "index,name\n0,a\n", "pid,state\n1,S\n", "a, b\n"):
        assert not any(reader.sniff(document(text)) for reader in READERS)
