"""GPUs as the table of nvidia-smi prints them."""

from __future__ import annotations

import pytest
from gpu_docs import OLD, gpus, listed, row, table

NEW = "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |"


def test_table() -> None:
    """The table gives each GPU with its processes; a GPU without any is known to have none."""
    text = table(row(0) + "\n" + row(1, "0%", " 71W"), listed(0, 48213), head=NEW)
    one, two = gpus(text)

    assert (one.index, one.bus, one.busy, one.power, one.power_limit) == (
        *(0, "0000:1b:00", 100, 118, 700),
    )
    assert (one.driver, one.cuda, one.mig, one.ecc_uncorrected) == ("610.57.04", "13.3", False, 0)
    assert [p.pid for p in one.processes or ()] == [48213]
    assert (two.busy, two.power, two.processes) == (0, 71, ())
    assert one.taken_at == 1782911213.0
    assert "118W / 700W" in one.quote


def test_table_without_processes_tells_nothing_of_them() -> None:
    """In a container the list is empty whatever runs: that is not "none"."""
    empty = "|                                                                           |"
    assert [gpu.processes for gpu in gpus(table(row(0), empty))] == [None]
    none = "|  No running processes found                                               |"
    assert [gpu.processes for gpu in gpus(table(row(0), none))] == [()]


def test_table_of_old_drivers() -> None:
    """Two rows a GPU, narrower columns, no MIG, no CUDA version."""
    (gpu,) = gpus(OLD)

    assert (gpu.driver, gpu.cuda, gpu.bus, gpu.busy) == ("384.111", None, "0000:00:1e", 34)
    assert (gpu.ecc_uncorrected, gpu.compute_mode) == (1, "Exclusive_Process")
    assert [(p.pid, p.name, p.memory) for p in gpu.processes or ()] == [
        (20921, "python train.py", 1014)
    ]


def test_table_with_mig() -> None:
    """MIG devices and the instance of each process are read; the load of the whole is not told."""
    text = table(
        row(0, " N/A", mig="Enabled"),
        "|    0    7    0              48213      C   python3                            10MiB |",
    ).replace(
        "| Processes:  ",
        "| MIG devices:                          |\n"
        "|  0    7   0   0  |      7MiB /  4864MiB | 14      0 |  1   0    0    0    0 |\n"
        "|                  |      0MiB /  8191MiB |           |                       |\n"
        "| Processes:  ",
    )
    (gpu,) = gpus(text)

    assert (gpu.mig, gpu.busy) == (True, None)
    assert [(p.pid, p.slice) for p in gpu.processes or ()] == [(48213, "7/0")]


def test_table_with_a_broken_gpu() -> None:
    """ERR! is a trouble of that GPU; a fan alone that cannot be read is not."""
    broken = row(1).replace("33C    P0            118W", "ERR!   ERR!          ERR!")
    broken = broken.replace("100%", "ERR!")
    fan = row(2).replace("| N/A ", "|ERR! ")
    good, bad, hot = gpus(table(f"{row(0)}\n{broken}\n{fan}"))

    assert (good.trouble, hot.trouble, hot.busy) == (None, None, 100)
    assert "busy: ERR!" in (bad.trouble or "")
    assert not bad.lost


LOST = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error"
LOST_OLD = (
    "Unable to determine the device handle for GPU 0000:1B:00.0: GPU is lost.  "
    "Reboot the system to recover this GPU"
)


@pytest.mark.parametrize(
    ("line", "index", "bus"), [(LOST, 1, "0000:34:00"), (LOST_OLD, None, "0000:1b:00")]
)
def test_a_lost_gpu_is_one(line: str, index: int | None, bus: str) -> None:
    """The line that nvidia-smi prints for a GPU out of reach names it; the table goes on."""
    first, second = gpus(f"{line}\n{table(row(0))}")

    assert (first.lost, first.index, first.bus) == (True, index, bus)
    assert (second.lost, second.busy) == (False, 100)


def test_tables_among_other_lines() -> None:
    """A table in a log is read, and each further one is a later look."""
    text = f"epoch 1\n{table(row(0))}\nepoch 2\n{table(row(0, '0%'))}\nend\n"

    assert [(gpu.look, gpu.busy) for gpu in gpus(text)] == [(0, 100), (1, 0)]
