"""Readers of GPU state: each shape of each tool, and what is broken in it."""

from __future__ import annotations

import time

import pytest
from gpu_docs import (
    LINKS,
    READERS,
    TOPOLOGY,
    document,
    gaps,
    gpus,
    listed,
    node,
    row,
    table,
    uuid,
    xml_gpu,
    xml_log,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from whyhang.analyzer.facts import Gap, Gpu
from whyhang.collectors.gpu import values
from whyhang.collectors.gpu.xml import XmlReader


def test_xml_tells_everything_of_each_gpu() -> None:
    """Index, names, load, power, health and processes are read, with the line of the GPU."""
    text = node(host="n1")
    found = gpus(text, "n1/smi.xml", "n1")

    assert [gpu.index for gpu in found] == list(range(8))
    gpu = found[1]
    assert (gpu.who.host, gpu.uuid, gpu.bus) == ("n1", uuid(1, "n1"), "0000:43:00")
    assert (gpu.busy, gpu.memory_busy, gpu.power, gpu.power_limit) == (100, 0, 118.2, 700)
    assert (gpu.memory_used, gpu.memory_total, gpu.temperature) == (65710, 143771, 33)
    assert (gpu.driver, gpu.cuda, gpu.pstate, gpu.compute_mode) == (
        *("570.86.10", "12.8", "P0", "Default"),
    )
    assert (gpu.sm_clock, gpu.sm_clock_max, gpu.memory_clock) == (1980, 1980, 3201)
    assert (gpu.ecc_uncorrected, gpu.ecc_corrected, gpu.ecc_ever) == (0, 2, 0)
    assert (gpu.remap_pending, gpu.remap_failed, gpu.retire_pending) == (False, False, None)
    assert (gpu.mig, gpu.reasons, gpu.fabric, gpu.recovery) == (False, (), "Completed", None)
    assert [(p.pid, p.memory, p.name) for p in gpu.processes or ()] == [
        (1001, 65700, "/usr/bin/python3")
    ]
    assert text.splitlines()[(gpu.source.line or 0) - 1].strip().startswith("<gpu id=")
    assert gpu.taken_at == 1782911213.0


def test_xml_of_old_drivers() -> None:
    """Before 535 sections had other names, and ECC counted single and double bits."""
    text = """<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v10.dtd">
<nvidia_smi_log><timestamp>Wed May 15 10:00:00 2019</timestamp>
<driver_version>418.67</driver_version><attached_gpus>1</attached_gpus>
<gpu id="00000000:06:00.0"><product_name>Tesla V100-SXM2-32GB</product_name>
<uuid>GPU-aa</uuid><pci><pci_bus_id>00000000:06:00.0</pci_bus_id></pci>
<clocks_throttle_reasons><clocks_throttle_reason_hw_slowdown>Active</clocks_throttle_reason_hw_slowdown
><clocks_throttle_reason_gpu_idle>Not Active</clocks_throttle_reason_gpu_idle>
</clocks_throttle_reasons>
<utilization><gpu_util>7 %</gpu_util><memory_util>N/A</memory_util></utilization>
<ecc_errors><volatile><single_bit><total>3</total></single_bit>
<double_bit><device_memory>1</device_memory><total>1</total></double_bit></volatile>
<aggregate><double_bit><total>N/A</total></double_bit></aggregate></ecc_errors>
<retired_pages><pending_retirement>Yes</pending_retirement></retired_pages>
<power_readings><power_draw>41.10 W</power_draw><power_limit>300.00 W</power_limit></power_readings>
<temperature><gpu_temp>30 C</gpu_temp></temperature><processes></processes></gpu>
</nvidia_smi_log>"""
    (gpu,) = gpus(text)

    assert (gpu.power, gpu.power_limit, gpu.busy, gpu.memory_busy) == (41.1, 300, 7, None)
    assert (gpu.ecc_uncorrected, gpu.ecc_corrected, gpu.ecc_ever) == (1, 3, None)
    assert (gpu.retire_pending, gpu.reasons, gpu.processes) == (True, ("hw_slowdown",), ())


def test_xml_of_new_drivers() -> None:
    """From 555 on ECC errors are split by kind, power has three readings, recovery a name."""
    block = xml_gpu(0).replace(
        "<sram_uncorrectable>0</sram_uncorrectable>",
        "<sram_uncorrectable_parity>1</sram_uncorrectable_parity>"
        "<sram_uncorrectable_secded>2</sram_uncorrectable_secded>",
        1,
    )
    block = block.replace("<power_draw>118.20 W</power_draw>", "<average_power_draw>99.50 W"
    "</average_power_draw><instant_power_draw>120.00 W</instant_power_draw>")  # fmt: skip
    block = block.replace("<pci>", "<gpu_recovery_action>Drain P2P</gpu_recovery_action><pci>")
    (gpu,) = gpus(xml_log([block]).replace("v12.dtd", "v13.dtd"))

    assert (gpu.ecc_uncorrected, gpu.power, gpu.recovery) == (3, 99.5, "Drain P2P")


def test_words_in_place_of_a_value() -> None:
    """N/A is no value; an error in its place is a trouble, and told with its name."""
    found = gpus(
        node({2: {"busy": "N/A", "power": "[Unknown Error]"}, 5: {"busy": "GPU requires reset"}})
    )

    assert (found[2].busy, found[2].power) == (None, None)
    assert found[2].trouble == "gpu_power_readings.power_draw: [Unknown Error]"
    assert found[5].trouble == "utilization.gpu_util: GPU requires reset"
    assert not found[2].lost
    assert gpus(node({1: {"mode": "GPU is lost"}}))[1].lost


def test_truncated_xml_gives_its_whole_gpus() -> None:
    """A file that was cut off loses the GPU it was cut in, and says how many there were."""
    whole = node()
    cut = whole[: whole.index('<gpu id="00000000:C3') + 900]

    assert [gpu.index for gpu in gpus(cut)] == [0, 1, 2, 3, 4]
    (gap,) = gaps(cut)
    assert "5 of 8 GPUs" in gap.why


def test_one_damaged_gpu_costs_only_itself() -> None:
    """The GPUs around it keep their numbers."""
    broken = node().replace(uuid(3), "<<&", 1)

    assert [gpu.index for gpu in gpus(broken)] == [0, 1, 2, 4, 5, 6, 7]
    assert len(gaps(broken)) == 1


def test_no_entity_is_ever_expanded() -> None:
    """The document type never reaches the parser: a bomb is a damaged GPU, quickly."""
    bomb = (
        '<?xml version="1.0"?>\n<!DOCTYPE nvidia_smi_log [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;">'
        '<!ENTITY x SYSTEM "file:///etc/hostname">]>\n'
        '<nvidia_smi_log><attached_gpus>2</attached_gpus><gpu id="00000000:06:00.0">'
        "<product_name>&b;&x;</product_name></gpu>"
        '<gpu id="00000000:07:00.0"><product_name>good</product_name></gpu></nvidia_smi_log>'
    )
    found = gpus(bomb)

    assert [(gpu.index, gpu.name) for gpu in found] == [(1, "good")]
    assert "1 of 2" in gaps(bomb)[0].why


def test_xml_samples_in_one_file_are_looks() -> None:
    """``nvidia-smi -q -x -l`` prints one document after the other."""
    found = gpus(xml_log([xml_gpu(0)]) + xml_log([xml_gpu(0, busy="0 %")]))

    assert [(gpu.look, gpu.busy) for gpu in found] == [(0, 100), (1, 0)]


def test_xml_of_one_chosen_gpu_has_no_index() -> None:
    """With -i the number is not told, and the first printed is not number 0."""
    text = xml_log([xml_gpu(3)]).replace("<attached_gpus>1<", "<attached_gpus>8<")
    (gpu,) = gpus(text)

    assert (gpu.index, gpu.bus) == (None, "0000:61:00")
    assert not gaps(text)


QUERY = """
==============NVSMI LOG==============

Timestamp                                 : Tue Jul  1 13:06:53 2026
Driver Version                            : 535.104.05
CUDA Version                              : 12.2

Attached GPUs                             : 2
GPU 00000000:1B:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    Persistence Mode                      : Enabled
    MIG Mode
        Current                           : Disabled
        Pending                           : Disabled
    GPU UUID                              : GPU-aaaa
    GPU Reset Status
        Reset Required                    : Yes
        Drain and Reset Recommended       : No
    PCI
        Bus                               : 0x1B
        Bus Id                            : 00000000:1B:00.0
    Performance State                     : P0
    Clocks Event Reasons
        Idle                              : Not Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : Not Active
    FB Memory Usage
        Total                             : 81559 MiB
        Used                              : 1234 MiB
    Compute Mode                          : Exclusive_Process
    Utilization
        Gpu                               : 100 %
        Memory                            : 3 %
    ECC Errors
        Volatile
            SRAM Correctable              : 0
            SRAM Uncorrectable            : 1
            DRAM Uncorrectable            : 2
        Aggregate
            SRAM Uncorrectable            : 9
    Remapped Rows
        Correctable Error                 : 0
        Pending                           : Yes
        Remapping Failure Occurred        : No
    Temperature
        GPU Current Temp                  : 88 C
        GPU Shutdown Temp                 : 92 C
    GPU Power Readings
        Power Draw                        : 240.42 W
        Current Power Limit               : 700.00 W
    Clocks
        SM                                : 345 MHz
        Memory                            : 2619 MHz
    Max Clocks
        SM                                : 1980 MHz
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 48213
            Type                          : C
            Name                          : python3
            Used GPU Memory               : 1200 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 48300
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : 20 MiB

GPU 00000000:43:00.0
    Product Name                          : NVIDIA H100 80GB HBM3
    GPU UUID                              : GPU-bbbb
    Utilization
        Gpu                               : Unknown Error
    Processes                             : None

*** /proc/driver/nvidia/version
something else
"""


def test_query_text() -> None:
    """Labels and sections of ``nvidia-smi -q`` are read, with what stands around it left alone."""
    one, two = gpus("uname\n" + QUERY)

    assert (one.index, one.uuid, one.bus, one.busy, one.memory_busy) == (
        *(0, "GPU-aaaa", "0000:1b:00", 100, 3),
    )
    assert (one.ecc_uncorrected, one.ecc_ever, one.remap_pending) == (3, 9, True)
    assert (one.recovery, one.compute_mode, one.temperature) == ("Reset", "Exclusive_Process", 88)
    assert one.reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (one.power, one.sm_clock, one.sm_clock_max) == (240.42, 345, 1980)
    assert [(p.pid, p.memory, p.graphics) for p in one.processes or ()] == [
        (48213, 1200, False),
        (48300, 20, True),
    ]
    assert (two.index, two.trouble, two.processes) == (1, "utilization/gpu: Unknown Error", ())


CSV = """timestamp, index, uuid, pci.bus_id, utilization.gpu [%], power.draw [W], \
clocks.current.sm [MHz], memory.used [MiB], clocks_event_reasons.active, fan.speed [%]
2026/07/01 13:06:53.123, 0, GPU-a, 00000000:1B:00.0, 100 %, 118.20 W, 1980 MHz, 65710 MiB, \
0x0000000000000000, [N/A]
2026/07/01 13:06:53.125, 1, GPU-b, 00000000:43:00.0, 0 %, 71.02 W, 1980 MHz, 9 MiB, \
0x0000000000000048, [N/A]
2026/07/01 13:06:58.125, 0, GPU-a, 00000000:1B:00.0, 98 %, 119.00 W, 1980 MHz, 65710 MiB, \
0x0000000000000000, [N/A]
2026/07/01 13:06:58.128, 1, GPU-b, 00000000:43:00.0, [GPU requires reset], [Unknown Error], \
[N/A], 9 MiB, [N/A], [N/A]
"""


def test_csv_with_units_and_samples() -> None:
    """Any columns in any order; a GPU that comes again is a later look."""
    found = gpus(CSV, "whatever.log")

    assert [(g.index, g.look, g.busy) for g in found] == [
        *((0, 0, 100), (1, 0, 0), (0, 1, 98), (1, 1, None)),
    ]
    assert found[1].reasons == ("hw_slowdown", "hw_thermal_slowdown")
    assert (found[1].power, found[1].memory_used, found[1].sm_clock) == (71.02, 9, 1980)
    assert found[0].taken_at == pytest.approx(1782911213.123)
    assert "requires reset" in (found[3].trouble or "")


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


NEW = "| NVIDIA-SMI 610.57.04              KMD Version: 610.57.04     CUDA UMD Version: 13.3     |"
OLD = """+-----------------------------------------------------------------------------+
| NVIDIA-SMI 384.111                Driver Version: 384.111                   |
|-------------------------------+----------------------+----------------------+
| GPU  Name        Persistence-M| Bus-Id        Disp.A | Volatile Uncorr. ECC |
| Fan  Temp  Perf  Pwr:Usage/Cap|         Memory-Usage | GPU-Util  Compute M. |
|===============================+======================+======================|
|   0  Tesla V100-SXM2...  On   | 00000000:00:1E.0 Off |                    1 |
| N/A   44C    P0    66W / 300W |   1024MiB / 16152MiB |     34%   E. Process |
+-------------------------------+----------------------+----------------------+

+-----------------------------------------------------------------------------+
| Processes:                                                       GPU Memory |
|  GPU       PID   Type   Process name                             Usage      |
|=============================================================================|
|    0     20921      C   python train.py                             1014MiB |
+-----------------------------------------------------------------------------+
"""


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
    assert [(s.device, s.instance, s.memory_used) for s in gpu.slices] == [(0, "7/0", 7)]
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


DMON = """# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec    jpg    ofa   mclk   pclk
# Idx      W      C      C      %      %      %      %      %      %    MHz    MHz
    0    118     31     45    100      0      0      0      0      0   3201   1980
    1     71     30      -      0      0      0      0      0      0   3201   1980
    0    119     31     45     99      0      0      0      0      0   3201   1980
    1     72     30      -      0      0      0      0      0      0   3201   1980
"""
PMON = """# gpu         pid   type     sm    mem    enc    dec    jpg    ofa    command
# Idx           #    C/G      %      %      %      %      %      %    name
    0      48213     C     99      2      -      -      -      -    python3
    0      48214     C      1      0      -      -      -      -    python3 x
    1          -     -      -      -      -      -      -      -    -
"""


def test_dmon() -> None:
    """Each row is a GPU at a moment."""
    found = gpus(DMON)

    assert [(g.index, g.look, g.busy, g.power) for g in found] == [
        *((0, 0, 100, 118), (1, 0, 0, 71), (0, 1, 99, 119), (1, 1, 0, 72)),
    ]
    assert (found[0].sm_clock, found[0].memory_clock, found[0].temperature) == (1980, 3201, 31)


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


DCGM = """#Entity   GPUTL  MCUTL  POWER  TMPTR
ID                       W      C
GPU 0     100    0      118.3  33
GPU 1     0      0      N/A    30
"""


def test_dcgmi_dmon() -> None:
    """The short names of DCGM's fields are known."""
    one, two = gpus(DCGM)

    assert (one.index, one.busy, one.power, one.temperature) == (0, 100, 118.3, 33)
    assert (two.busy, two.power) == (0, None)
    (older,) = gpus("# Entity  GPUTL  POWER\n# Id      %      W\n   GPU 0   97   400\n")
    assert (older.busy, older.power) == (97, 400)


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


ERRORS = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 2
\t Link 0: CRC Errors: 5
GPU 1: NVIDIA B200 (UUID: GPU-bbbb)
\t Link 0: Malformed packet Errors: 1
\t Link 0: Link recovery successful events: 9
\t Link 0: FEC Errors - 0: 123456
"""


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


def test_dcgmi_nvlink_errors() -> None:
    """The counters of each link are added up; the shape rests on outputs recorded publicly."""
    rule = "+-----------------------------+------------------------------------------------+\n"
    rows = ("Link 0", "", "-> CRC FLIT Error", "0", "-> Replay Error", "4", "Link 1", "")
    rows = (*rows, "-> Recovery Error", "0")
    body = "".join(f"| {a:27} | {b:46} |\n" for a, b in zip(rows[::2], rows[1::2], strict=True))
    head = f"| {'NVLINK Error Counts':76} |\n| {'GPU 5':76} |\n"
    (gpu,) = gpus(rule + head + rule + body + rule)

    assert (gpu.index, [(k.number, k.errors) for k in gpu.links or ()]) == (5, [(0, 4), (1, 0)])
    assert "Link 0 -> Replay Error 4" in gpu.quote


def test_gpustat() -> None:
    """Gpustat names the host in its first line, and load, memory and pids of each GPU."""
    one, two = gpus(
        "tiger-i20g7  Sun Oct 27 22:56:31 2019  418.67\n"
        "[0] Tesla P100-PCIE-16GB | 48'C,  55 %,  70 / 250 W | 15757 / 16280 MB | "
        "ann:python/4711(15747M) bob:python/12(3M)\n"
        "[1] Tesla P100-PCIE-16GB | 37'C,   9 % |     3 / 16280 MB |\n"
    )

    assert (one.who.host, one.index, one.busy, one.power, one.power_limit) == (
        *("tiger-i20g7", 0, 55, 70, 250),
    )
    assert [(p.pid, p.name, p.memory) for p in one.processes or ()] == [
        (4711, "python", 15747),
        (12, "python", 3),
    ]
    assert (two.index, two.memory_used, two.processes) == (1, 3, None)


def test_list_of_gpus() -> None:
    """``nvidia-smi -L`` ties indices to UUIDs, those of MIG devices too."""
    one, two = gpus(
        "GPU 0: NVIDIA A100 (UUID: GPU-aaaa)\n"
        "  MIG 1g.10gb     Device  0: (UUID: MIG-cccc)\n"
        "GPU 1: NVIDIA A100 (UUID: GPU-bbbb)\n"
    )

    assert (one.index, one.uuid, one.slices[0].uuid, two.index) == (0, "GPU-aaaa", "MIG-cccc", 1)


def test_dcgmi_nvlink() -> None:
    """U is up, D is down; what is disabled or not there is no link."""
    one, two = gpus("GPUs:\n    gpuId 0:\n        U U D _\n    gpuId 1:\n        U U U X\n")

    assert [link.active for link in one.links or ()] == [True, True, False]
    assert [link.active for link in two.links or ()] == [True, True, True]


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


DOCUMENTS = (node(count=2), QUERY, CSV, table(row(0), listed(0, 4)), OLD, DMON, PMON, LINKS, ERRORS)


@settings(max_examples=60, deadline=None)
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
GPUSTAT = "[0] Tesla P100 | 48'C,  55 %,  70 / 250 W | 157 / 16280 MB | ann:python/4711(15747M)\n"
HOSTS = "==== node7 ====\nroot@node7:~# nvidia-smi\nhostname: node7\n==> logs/node7/smi.txt <==\n"
DCGM_TABLES = """\
| NVLINK Error Counts |
| GPU 5 |
| Link 0 | |
| -> Replay Error | 4 |
GPUs:
    gpuId 0:
        U U D _
| Diagnostic  | Result |
| PCIe  | Fail - GPU: 2 |
"""
APPS = "GPU-11112222-0000-4000-8000-000000000001, 48213, /usr/bin/python3, 65710\n"
LOST = "Unable to determine the device handle for GPU1: 0000:34:00.0: Unknown Error\n"
EVERY = (
    *(*DOCUMENTS, TOPOLOGY, DCGM, PMON, ROCM, GPUSTAT),
    *(HOSTS + table(row(0)), DCGM_TABLES, APPS, LOST),
)
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
