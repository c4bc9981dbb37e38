"""What the numbers of NVIDIA's Xid lines mean: whom to blame, how bad it is, what to do.

The driver reports a fault as ``NVRM: Xid (PCI:0000:1b:00): 79, pid=…, name=…, text``. The
meanings follow NVIDIA's Xid catalogue as of October 2025 (docs.nvidia.com/deploy/xid-errors);
older drivers print no pid. One table, from which the signatures take their patterns and words.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from whyhang.analyzer.model import Record


class Blame(enum.Enum):
    """Whom an Xid points at. Its value is the name of the class of Xids."""

    APPLICATION = "application"  # the program of the pid on the line
    MEMORY = "memory"  # the memory of the GPU
    BUS = "bus"  # the GPU cannot be reached
    GPU = "gpu"  # the GPU stopped
    FIRMWARE = "firmware"  # its system processor, or the driver's talk with it
    LINK = "link"  # NVLink, at either end
    EFFECT = "effect"  # of another fault, or of a process that was killed
    NOTE = "note"  # nothing that stops a job


class Xid(Record):
    """One number: what it means and what to do about it."""

    number: int
    blame: Blame
    meaning: str
    action: str


_RESTART = "restart the job; debug the kernel with compute-sanitizer if it comes back"
_RESET = "drain the host and reset the GPU with no job on it"
_REPLACE = "drain the host, reset the GPU; have it replaced if this comes back"
_LINKS = "drain the host; check links and NVSwitches (nvidia-smi nvlink -e, SXid), then reset"
_NOTHING = "nothing for this job"


def _row(blame: Blame, action: str, meanings: Mapping[int, str]) -> list[Xid]:
    return [
        Xid(number=number, blame=blame, meaning=meaning, action=action)
        for number, meaning in meanings.items()
    ]


TABLE: dict[int, Xid] = {
    xid.number: xid
    for xid in (
        *_row(
            Blame.APPLICATION,
            _RESTART,
            {
                8: "the GPU stopped processing: a kernel ran too long",
                11: "invalid or corrupted push buffer",
                13: "a kernel read or wrote out of range, or an assert failed in it",
                25: "invalid or illegal push buffer",
                31: "a kernel touched memory that is not there (MMU fault)",
                32: "invalid or corrupted push buffer",
                39: "copy engine exception",
                40: "copy engine exception",
                41: "copy engine exception",
                44: "a fault during a context switch",
                69: "graphics engine class error",
                70: "copy engine exception",
                71: "copy engine exception",
                72: "copy engine exception",
                75: "copy engine exception",
                76: "copy engine exception",
                77: "copy engine exception",
                85: "copy engine exception",
            },
        ),
        *_row(
            Blame.MEMORY,
            _REPLACE,
            {
                48: "a double-bit error that could not be corrected",
                64: "a bad row or page could not be taken out of use",
                95: "an uncontained memory error: everything on the GPU is lost",
                140: "memory errors that the GPU did not recover from",
                157: "a part of the GPU could not be taken out of use",
                171: "an uncorrectable error in DRAM",
                172: "an uncorrectable error in SRAM",
            },
        ),
        *_row(
            Blame.MEMORY,
            "restart the job; reset the GPU soon, so that the bad row is taken out of use",
            {94: "a memory error that was contained to this program"},
        ),
        *_row(
            Blame.BUS,
            "drain the host and power-cycle it; check seating, PCIe, power and temperature",
            {79: "the GPU has fallen off the bus"},
        ),
        *_row(
            Blame.GPU,
            _RESET,
            {
                46: "the GPU stopped processing",
                62: "the power unit of the GPU halted",
                109: "a context switch timed out",
                110: "a security fault of the GPU",
                143: "the GPU could not be initialised",
                158: "the GPU timed out fatally",
                160: "a memory channel was retired",
                161: "a memory channel could not be retired",
            },
        ),
        *_row(
            Blame.GPU,
            "drain the host and check the power cables of the GPU",
            {54: "the auxiliary power is not connected"},
        ),
        *_row(Blame.GPU, "restart the virtual machine", {151: "key rotation failed"}),
        *_row(Blame.GPU, "drain the host and reboot it", {167: "PCIe timed out fatally"}),
        *_row(
            Blame.FIRMWARE,
            "drain the host, reset the GPU or reboot; upgrade the driver if it comes back",
            {
                119: "the GPU's firmware (GSP) does not answer",
                120: "the GPU's firmware (GSP) failed",
            },
        ),
        *_row(
            Blame.LINK,
            _LINKS,
            {
                74: "an NVLink failed",
                136: "an NVLink could not be trained",
                144: "NVLink: SAW error",
                145: "NVLink: RLW error",
                146: "NVLink: TLW error",
                147: "NVLink: TREX error",
                148: "NVLink: privileged control error",
                149: "NVLink: NETIR error",
                150: "NVLink: MSE error",
                155: "NVLink: error reported by software",
            },
        ),
        *_row(
            Blame.EFFECT,
            "look for the earlier fault, or for what killed the process",
            {
                43: "a channel was stopped after its program had failed",
                45: "channels were removed: the program was killed, or the GPU had failed",
            },
        ),
        *_row(
            Blame.NOTE,
            _NOTHING,
            {
                38: "a notice of the firmware's watchdog",
                61: "a notice of an internal controller",
                92: "many corrected memory errors",
                121: "a corrected error of the link to the CPU",
                137: "an NVLink access without the right to it",
                141: "a notice",
            },
        ),
        *_row(
            Blame.NOTE,
            "reset the GPU at a good time",
            {
                63: "a bad row or page is taken out of use at the next reset",
                156: "a part of the GPU is taken out of use at the next reset",
            },
        ),
    )
}


def line_of(blame: Blame) -> str:
    """Give the pattern of a line with an Xid of this class.

    Newer drivers say with an Xid that follows from another which one that was, and a log that
    begins late may hold only these lines.
    """
    numbers = "|".join(str(n) for n, xid in sorted(TABLE.items()) if xid.blame is blame)
    return (
        rf"NVRM: Xid \((?:PCI:)?(?P<pci>[0-9a-fA-F:.]+)[^)]*\): "
        rf"(?:4[35], .{{0,80}} caused by previous Xid )?(?P<xid>{numbers})(?:$|[, ])"
        r"(?: ?pid='?(?P<pid>\d+))?"
    )


WORDS: dict[str, dict[str, dict[str, str]]] = {
    "xid": {
        str(xid.number): {"meaning": xid.meaning, "action": xid.action} for xid in TABLE.values()
    }
}
"""What a number adds to the fields of a finding: ``meaning`` and ``action``."""
