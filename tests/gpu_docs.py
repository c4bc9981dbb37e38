"""Output of GPU tools for tests, written after the formats.

The shapes of the table of driver 610, of ``Unable to determine the device handle`` and of an
empty process table rest on outputs recorded on real machines; the others on the tools' manuals
and on the fields that NVIDIA documents for each driver generation. The values are made up.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence

import documents

from whyhang.analyzer.facts import Fact, Gap, Gpu, Who
from whyhang.analyzer.reading import Document, Reader
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.gpu.nvml import NvmlReader
from whyhang.collectors.gpu.xml import XmlReader
from whyhang.collectors.printed import PrintReader

READERS: tuple[Reader, ...] = (NvmlReader(), XmlReader(), PrintReader())
LINKS = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa)
\t Link 0: 26.562 GB/s
\t Link 1: 26.562 GB/s
GPU 1: NVIDIA H200 (UUID: GPU-bbbb)
\t Link 0: 26.562 GB/s
\t Link 1: <inactive>
"""

TOPOLOGY = (
    "\t\x1b[4mGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\x1b[0m\n"
    "GPU0\t X \tNV18\tPIX\t0-47\t0\n"
    "GPU1\tNV18\t X \tSYS\t48-95\t1\n"
    "NIC0\tPIX\tSYS\t X \t\t\n\nLegend:\n\n  X    = Self\n"
    "  SYS  = Connection traversing PCIe as well as the interconnect between NUMA nodes\n"
)
BUSES = ("1B", "43", "52", "61", "9D", "C3", "D1", "DF")


def document(data: str | bytes, path: str = "smi.txt", host: str | None = None) -> Document:
    """Make a document of text."""
    return documents.document(data, path, Who(host=host))


def facts(data: str | bytes, path: str = "smi.txt", host: str | None = None) -> list[Fact]:
    """Read a text with the readers of GPU state, the way every file is read."""
    return list(read_documents([document(data, path, host)], readers=READERS))


def gpus(data: str | bytes, path: str = "smi.txt", host: str | None = None) -> list[Gpu]:
    """Give the GPUs that a text tells of."""
    return [fact for fact in facts(data, path, host) if isinstance(fact, Gpu)]


def gaps(data: str | bytes) -> list[Gap]:
    """Give what could not be read of a text."""
    return [fact for fact in facts(data) if isinstance(fact, Gap)]


def uuid(index: int, host: str = "h") -> str:
    """Make the UUID of a GPU, other on each host."""
    mark = zlib.crc32(host.encode())
    return f"GPU-{mark:08x}-0000-4000-8000-{index:012x}"


def xml_gpu(index: int, host: str = "h", pid: int | None = None, **values: str) -> str:
    """Write one GPU as ``nvidia-smi -q -x`` of drivers 535 to 570 does (nvsmi_device_v12)."""
    v = {
        "busy": "100 %",
        "memory_busy": "0 %",
        "power": "118.20 W",
        "temp": "33 C",
        "used": "65710 MiB",
        "ecc": "0",
        "ecc_ever": "0",
        "pending": "No",
        "failure": "No",
        "thermal": "Not Active",
        "brake": "Not Active",
        "mode": "Default",
        "mig": "Disabled",
        "fabric": "Completed",
        "status": "Success",
        "reset": "No",
        **values,
    }
    process = ""
    if pid is not None:
        process = f"""
\t\t\t<process_info>
\t\t\t\t<gpu_instance_id>N/A</gpu_instance_id>
\t\t\t\t<compute_instance_id>N/A</compute_instance_id>
\t\t\t\t<pid>{pid}</pid>
\t\t\t\t<type>C</type>
\t\t\t\t<process_name>/usr/bin/python3</process_name>
\t\t\t\t<used_memory>65700 MiB</used_memory>
\t\t\t</process_info>"""
    return f"""\t<gpu id="00000000:{BUSES[index % 8]}:00.0">
\t\t<product_name>NVIDIA H200</product_name>
\t\t<product_architecture>Hopper</product_architecture>
\t\t<mig_mode>
\t\t\t<current_mig>{v["mig"]}</current_mig>
\t\t\t<pending_mig>{v["mig"]}</pending_mig>
\t\t</mig_mode>
\t\t<uuid>{uuid(index, host)}</uuid>
\t\t<minor_number>{index}</minor_number>
\t\t<fabric>
\t\t\t<state>{v["fabric"]}</state>
\t\t\t<status>{v["status"]}</status>
\t\t</fabric>
\t\t<gpu_reset_status>
\t\t\t<reset_required>{v["reset"]}</reset_required>
\t\t\t<drain_and_reset_recommended>No</drain_and_reset_recommended>
\t\t</gpu_reset_status>
\t\t<pci>
\t\t\t<pci_bus>{BUSES[index % 8]}</pci_bus>
\t\t\t<pci_bus_id>00000000:{BUSES[index % 8]}:00.0</pci_bus_id>
\t\t\t<replay_counter>0</replay_counter>
\t\t</pci>
\t\t<fan_speed>N/A</fan_speed>
\t\t<performance_state>P0</performance_state>
\t\t<clocks_event_reasons>
\t\t\t<clocks_event_reason_gpu_idle>Not Active</clocks_event_reason_gpu_idle>
\t\t\t<clocks_event_reason_hw_thermal_slowdown>{v["thermal"]}</clocks_event_reason_hw_thermal_slowdown>
\t\t\t<clocks_event_reason_hw_power_brake_slowdown>{v["brake"]}</clocks_event_reason_hw_power_brake_slowdown>
\t\t</clocks_event_reasons>
\t\t<fb_memory_usage>
\t\t\t<total>143771 MiB</total>
\t\t\t<reserved>602 MiB</reserved>
\t\t\t<used>{v["used"]}</used>
\t\t\t<free>77459 MiB</free>
\t\t</fb_memory_usage>
\t\t<compute_mode>{v["mode"]}</compute_mode>
\t\t<utilization>
\t\t\t<gpu_util>{v["busy"]}</gpu_util>
\t\t\t<memory_util>{v["memory_busy"]}</memory_util>
\t\t</utilization>
\t\t<ecc_errors>
\t\t\t<volatile>
\t\t\t\t<sram_correctable>0</sram_correctable>
\t\t\t\t<sram_uncorrectable>{v["ecc"]}</sram_uncorrectable>
\t\t\t\t<dram_correctable>2</dram_correctable>
\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>
\t\t\t</volatile>
\t\t\t<aggregate>
\t\t\t\t<sram_correctable>0</sram_correctable>
\t\t\t\t<sram_uncorrectable>{v["ecc_ever"]}</sram_uncorrectable>
\t\t\t\t<dram_correctable>7</dram_correctable>
\t\t\t\t<dram_uncorrectable>0</dram_uncorrectable>
\t\t\t</aggregate>
\t\t</ecc_errors>
\t\t<retired_pages>
\t\t\t<pending_retirement>N/A</pending_retirement>
\t\t</retired_pages>
\t\t<remapped_rows>
\t\t\t<remapped_row_corr>0</remapped_row_corr>
\t\t\t<remapped_row_unc>0</remapped_row_unc>
\t\t\t<remapped_row_pending>{v["pending"]}</remapped_row_pending>
\t\t\t<remapped_row_failure>{v["failure"]}</remapped_row_failure>
\t\t</remapped_rows>
\t\t<temperature>
\t\t\t<gpu_temp>{v["temp"]}</gpu_temp>
\t\t</temperature>
\t\t<gpu_power_readings>
\t\t\t<power_state>P0</power_state>
\t\t\t<power_draw>{v["power"]}</power_draw>
\t\t\t<current_power_limit>700.00 W</current_power_limit>
\t\t</gpu_power_readings>
\t\t<clocks>
\t\t\t<graphics_clock>1980 MHz</graphics_clock>
\t\t\t<sm_clock>1980 MHz</sm_clock>
\t\t\t<mem_clock>3201 MHz</mem_clock>
\t\t</clocks>
\t\t<max_clocks>
\t\t\t<sm_clock>1980 MHz</sm_clock>
\t\t</max_clocks>
\t\t<processes>{process}
\t\t</processes>
\t</gpu>
"""


def xml_log(blocks: Sequence[str], *, stamp: str = "Tue Jul  1 13:06:53 2026") -> str:
    """Write the whole document."""
    return f"""<?xml version="1.0" ?>
<!DOCTYPE nvidia_smi_log SYSTEM "nvsmi_device_v12.dtd">
<nvidia_smi_log>
\t<timestamp>{stamp}</timestamp>
\t<driver_version>570.86.10</driver_version>
\t<cuda_version>12.8</cuda_version>
\t<attached_gpus>{len(blocks)}</attached_gpus>
{"".join(blocks)}</nvidia_smi_log>
"""


def node(
    changed: Mapping[int, Mapping[str, str]] | None = None,
    *,
    host: str = "h",
    first_pid: int = 1000,
    count: int = 8,
    **everywhere: str,
) -> str:
    """Write a host of ``count`` GPUs with a process each; ``changed`` gives values by index."""
    return xml_log(
        [
            xml_gpu(n, host, first_pid + n, **{**everywhere, **(changed or {}).get(n, {})})
            for n in range(count)
        ]
    )


def table(rows: str, processes: str = "", *, head: str = "") -> str:
    """Write the table of drivers 545 and newer."""
    head = head or (
        "| NVIDIA-SMI 570.86.10              Driver Version: 570.86.10      CUDA Version: 12.8"
        "     |"
    )
    rule = "+-----------------------------------------+------------------------+-------------+"
    below = ""
    if processes:
        below = f"""
+-----------------------------------------------------------------------------------------+
| Processes:                                                                              |
|  GPU   GI   CI              PID   Type   Process name                        GPU Memory |
|        ID   ID                                                               Usage      |
|=========================================================================================|
{processes}
+-----------------------------------------------------------------------------------------+
"""
    return f"""Tue Jul  1 13:06:53 2026
+-----------------------------------------------------------------------------------------+
{head}
{rule}
| GPU  Name                 Persistence-M | Bus-Id          Disp.A | Volatile Uncorr. ECC |
| Fan  Temp   Perf          Pwr:Usage/Cap |           Memory-Usage | GPU-Util  Compute M. |
|                                         |                        |               MIG M. |
|=========================================+========================+======================|
{rows}
{rule}
{below}"""


def row(index: int, busy: str = "100%", power: str = "118W", mig: str = "Disabled") -> str:
    """Write the three rows of one GPU."""
    bus = BUSES[index % 8]
    return f"""|   {index}  NVIDIA H200              On  |   00000000:{bus}:00.0 Off |           0 |
| N/A   33C    P0            {power} /  700W |   65710MiB / 143771MiB |    {busy}      Default |
|                                         |                        |             {mig} |
+-----------------------------------------+------------------------+----------------------+"""


def listed(index: int, pid: int, memory: str = "65700MiB") -> str:
    """Write a row of the process table."""
    return (
        f"|    {index}   N/A  N/A     {pid}      C   /usr/bin/python3"
        f"                              {memory} |"
    )


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


ERRORS = """GPU 0: NVIDIA H200 (UUID: GPU-aaaa)
\t Link 0: Replay Errors: 0
\t Link 0: Recovery Errors: 2
\t Link 0: CRC Errors: 5
GPU 1: NVIDIA B200 (UUID: GPU-bbbb)
\t Link 0: Malformed packet Errors: 1
\t Link 0: Link recovery successful events: 9
\t Link 0: FEC Errors - 0: 123456
"""
