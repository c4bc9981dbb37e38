"""The kernel reports I/O errors or a file system that stopped.

A failing disk or NVMe drive that times out, a file system that went read-only, a cluster file
system without its servers. Processes that use it block or get input/output errors.

It speaks only for ranks that use that disk.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="kernel-storage-error",
    category="storage-io-blocked",
    kind=Kind.CAUSE,
    title="A disk or file system of a host reports errors",
    when=log(
        (
            r"(?:blk_update_request: )?(?:critical (?:medium|target)|I/O) error, dev (?:nvme|sd|"
            r"vd|xvd|dm-|md)\w*, sector \d+"
        ),
        r"nvme nvme\d+: I/O (?:tag )?\d+ .*timeout, (?:aborting|reset|completion polled)",
        r"nvme nvme\d+: (?:controller is down|Device not ready)",
        r"EXT4-fs (?:error|\(\S+\): Remounting filesystem read-only)",
        r"XFS \(\S+\): (?:log I/O error|Corruption|Filesystem has been shut down)",
        r"(?:libceph|ceph): mds\d+ (?:hung|caps stale)",
    ),
    means="Storage of this host fails, and processes that use it block or die.",
    confidence=0.65,
    remedies=("Take the host out of the job; replace the disk or restore the storage service.",),
    next_steps=(
        "dmesg -T | grep -iE 'error|nvme|xfs|ext4'  # around that time",
        "sudo smartctl -a DEVICE; df -h  # of NVMe: nvme smart-log DEVICE",
    ),
    matches=(
        (
            "[ 991.2] blk_update_request: I/O error, dev nvme0n1, sector 123456 op 0x0:(READ) "
            "flags 0x80700"
        ),
        "[ 991.2] nvme nvme0: I/O 12 QID 3 timeout, aborting",
        "[ 991.2] EXT4-fs (sda1): Remounting filesystem read-only",
        "[ 991.2] ceph: mds0 hung",
        "[ 991.2] nvme nvme0: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
        "[ 991.2] XFS (nvme0n1p1): log I/O error -5",
    ),
    misses=(
        "[ 12.2] blk_update_request: I/O error, dev fd0, sector 0 op 0x0:(READ) flags 0x0",
        "[ 12.2] EXT4-fs (sda1): mounted filesystem with ordered data mode. Opts: (null)",
        "[ 12.2] nvme nvme0: 16/0/0 default/read/poll queues",
    ),
    outranks=("launcher-exit-code",),
)
