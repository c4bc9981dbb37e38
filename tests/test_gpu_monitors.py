"""GPUs as dmon, DCGM's tests, topology and ROCm's tools print them, and of which host."""

from __future__ import annotations

import pytest
from gpu_docs import DMON, ERRORS, LINKS, PMON, TOPOLOGY, gpus, listed, row, table

from whyhang.collectors.gpu import values


def test_dmon() -> None:
    """Each row is a GPU at a moment."""
    devices = gpus(DMON)

    assert [(g.index, g.look, g.busy, g.power) for g in devices] == [
        *((0, 0, 100, 118), (1, 0, 0, 71), (0, 1, 99, 119), (1, 1, 0, 72))
    ]
    assert (devices[0].sm_clock, devices[0].temperature) == (1980, 31)


def test_dmon_with_date() -> None:
    """``-o DT`` puts date and time in front."""
    (gpu,) = gpus(
        "#Date       Time        gpu    pwr  gtemp     sm    mem\n"
        "#YYYYMMDD   HH:MM:SS    Idx      W      C      %      %\n"
        " 20260701   13:06:53      3    118     31    100      0\n"
    )

    assert (gpu.index, gpu.busy, gpu.taken_at) == (3, 100, 1782911213.0)


def test_pmon() -> None:
    """The processes of each GPU come together."""
    one, two = gpus(PMON)

    assert ([p.pid for p in one.processes or ()], one.busy) == ([48213, 48214], 99)
    assert (two.processes, two.busy) == ((), None)


def test_dcgmi_diag() -> None:
    """Only the GPUs of a failed test are told of."""
    (gpu,) = gpus(
        "+---------------------------+------------------------------------------------+\n"
        "| Diagnostic                | Result                                         |\n"
        "+===========================+================================================+\n"
        "|-----  Hardware  ----------+------------------------------------------------|\n"
        "| GPU Memory                | Pass - GPUs: 0, 1, 2, 3                        |\n"
        "| PCIe                      | Fail - GPU: 2                                  |\n"
    )

    assert (gpu.index, gpu.trouble) == (2, "dcgmi diag failed: PCIe")

    hurt, failed = gpus(
        "| Diagnostic                | Result                                         |\n"
        "| Error                     | GPU 3 has uncorrectable memory errors and row  |\n"
        "|                           |  remappings are pending                        |\n"
        "| GPU Memory                | Pass - GPUs: 1, 2                              |\n"
        "|                           | Fail - GPU: 5                                  |\n"
    )
    assert (hurt.index, failed.index) == (3, 5)
    assert failed.trouble == "dcgmi diag failed: GPU Memory"


def test_nvlink_states_and_errors() -> None:
    """A link is up or not; only counters of errors are added up."""
    one, two = gpus(LINKS)
    assert [link.active for link in one.links or ()] == [True, True]
    assert [link.active for link in two.links or ()] == [True, False]
    assert "Link 1: <inactive>" in two.quote

    one, two = gpus(ERRORS)
    assert [link.errors for link in one.links or ()] == [7]
    assert [link.errors for link in two.links or ()] == [1]


def test_links_under_a_heading_without_uuid() -> None:
    """Some drivers name the GPU alone; a line like it with no links below is none."""
    (gpu,) = gpus("GPU 0: NVIDIA GB300\n\t Link 0: Replay Errors: 0\n\t Link 0: CRC Errors: 3\n")
    assert (gpu.index, gpu.uuid, [k.errors for k in gpu.links or ()]) == (0, None, [3])
    assert not gpus("x Link 0: y\nGPU 0: NVIDIA GB300\nand so on\n")


def test_list_of_gpus() -> None:
    """``nvidia-smi -L`` ties indices to UUIDs, those of MIG devices too."""
    one, two = gpus(
        "GPU 0: NVIDIA A100 (UUID: GPU-aaaa)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-cccc)\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-bbbb)\n"
    )

    assert (one.index, one.uuid, one.slices[0].uuid, two.index) == (0, "GPU-aaaa", "MIG-cccc", 1)


def test_topology() -> None:
    """A row says how a GPU reaches the others; columns behind are left out."""
    one, two = gpus(TOPOLOGY)

    assert (one.peers, two.peers, two.index) == (("X", "NV18"), ("NV18", "X"), 1)

    plain = gpus("        GPU0\tGPU1\nGPU0\tX\tNV12\nGPU1\tNV12\tX\nCPU Affinity\n")
    assert [gpu.peers for gpu in plain] == [("X", "NV12"), ("NV12", "X")]


def test_rocm_names_gpus_and_their_use() -> None:
    """rocm-smi is read as far as it tells which GPUs there are and how busy they are."""
    one, two = gpus(
        "======== ROCm System Management Interface ========\n"
        "GPU  Temp   AvgPwr  SCLK    MCLK     Fan  Perf  PwrCap  VRAM%  GPU%\n"
        "0    39.0c  42.0W   800Mhz  1600Mhz  0%   auto  560.0W    0%   0%\n"
        "1    59.0c  312.0W  1700Mhz 1600Mhz  0%   auto  560.0W   80%  99%\n"
    )
    assert [(one.index, one.busy), (two.index, two.busy, two.power)] == [(0, 0), (1, 99, 312)]

    (gpu,) = gpus("GPU[0]\t\t: PCI Bus: 0000:03:00.0\nGPU[0]\t\t: GPU use (%): 97\n")
    assert (gpu.index, gpu.bus, gpu.busy) == (0, "0000:03:00", 97)


def test_hosts_by_prefix() -> None:
    """With pdsh or clush each line names its host, and hosts may be mixed."""
    lines = table(row(0)).splitlines()
    text = "\n".join(f"{host}: {line}" for line in lines for host in ("node7", "node8"))

    assert sorted((gpu.who.host, gpu.index) for gpu in gpus(text)) == [("node7", 0), ("node8", 0)]


@pytest.mark.parametrize(
    "line",
    [
        "===== node7 =====",
        "root@node7:~# nvidia-smi",
        "[user@node7 ~]$ nvidia-smi",
        "Linux node7 5.15.0-91-generic #101-Ubuntu SMP x86_64 GNU/Linux",
        "hostname: node7",
        "### host=node7 ###",
        "===== node7 | before | 2026-08-13T07:53:30Z =====",
        "==> logs/node7/smi.txt <==",
        "---------------\nnode7\n---------------",
    ],
)
def test_hosts_by_a_line_above(line: str) -> None:
    """What a person or a loop over hosts prints before the output names the host of it."""
    assert [gpu.who.host for gpu in gpus(f"{line}\n{table(row(0))}")] == ["node7"]


def test_the_table_itself_names_no_host() -> None:
    """Rules, headings and dates are not taken for hosts."""
    assert [gpu.who.host for gpu in gpus(table(row(0), listed(0, 1)))] == [None]


def test_bus_ids_in_one_form() -> None:
    """nvidia-smi writes 8 digits of domain, the kernel 4, some none."""
    for text in ("00000000:1B:00.0", "0000:1b:00", "1B:00.0"):
        assert values.bus_id(text) == "0000:1b:00"
    assert values.bus_id("nonsense") is None
