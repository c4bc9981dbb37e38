"""Facts of GPUs, as NVML, nvidia-smi, dcgmi and their like tell them."""

from whyhang.analyzer.facts.base import Record, Sourced


class GpuProcess(Record):
    """A process with a context on a GPU. ``memory`` is in MiB; ``slice`` names its MIG instance.

    ``pid`` is a number of the namespace in which the tool ran, mostly the host's.
    """

    pid: int
    name: str = ""
    memory: float | None = None
    slice: str | None = None  # "GPU instance/compute instance": "7/0"
    graphics: bool = False  # a display server, not a program that computes


class GpuSlice(Record):
    """A MIG device: a part of a GPU that programs see as one of their own."""

    uuid: str | None = None


class NvLink(Record):
    """One NVLink of a GPU. ``errors`` adds up its counters of replay, recovery and CRC errors."""

    number: int
    active: bool | None = None
    errors: int | None = None


class Gpu(Sourced):
    """What one tool tells of one GPU at one moment; None where it tells nothing.

    ``who`` names the host. ``look`` counts the samples of one source in time. ``index`` is
    nvidia-smi's, ``bus`` the PCI address as "domain:bus:device" ("0000:1b:00"). ``busy`` and
    ``memory_busy`` are per cent of time, memory is in MiB, power in W, clocks in MHz,
    temperature in degrees Celsius. ``ecc_uncorrected`` counts since the driver was loaded.
    ``reasons`` are those for which the clocks are held
    down ("hw_thermal_slowdown"). ``peers`` is its row of the topology matrix. ``trouble`` is
    what the tool says in the place of a value, or of the whole GPU, verbatim ("ERR!");
    ``lost``: that the driver no longer reaches it.
    """

    tool: str  # "nvidia-smi -q -x", "nvml", "dcgmi diag", …
    look: int = 0
    taken_at: float | None = None
    index: int | None = None
    uuid: str | None = None
    bus: str | None = None
    name: str | None = None
    driver: str | None = None
    cuda: str | None = None
    busy: float | None = None
    memory_busy: float | None = None
    memory_used: float | None = None
    memory_total: float | None = None
    power: float | None = None
    power_limit: float | None = None
    sm_clock: float | None = None
    temperature: float | None = None
    pstate: str | None = None
    compute_mode: str | None = None
    mig: bool | None = None
    slices: tuple[GpuSlice, ...] = ()
    ecc_uncorrected: float | None = None
    remap_pending: bool | None = None
    remap_failed: bool | None = None
    retire_pending: bool | None = None
    recovery: str | None = None
    reasons: tuple[str, ...] | None = None
    fabric: str | None = None
    links: tuple[NvLink, ...] | None = None
    peers: tuple[str, ...] | None = None
    processes: tuple[GpuProcess, ...] | None = None
    trouble: str | None = None
    lost: bool = False
    quote: str = ""  # the line or values that a report cites
