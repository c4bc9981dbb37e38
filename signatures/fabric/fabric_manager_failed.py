"""The service that runs the NVSwitch fabric ended or could not start.

A version that differs from the driver's, a failed NVLink, or a restart under running jobs. Jobs
that run at that moment lose NVLink; new ones get error 802.

It concerns all ranks of the host; the line itself is of the system log.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="fabric-manager-failed",
    category="nvlink-error",
    kind=Kind.CAUSE,
    title="The NVIDIA Fabric Manager failed on a host",
    when=log(
        (
            r"nvidia-fabricmanager\.service: (?:Main process exited|Failed with result|Control "
            r"process exited)"
        ),
        r"Failed to start (?:nvidia-fabricmanager|NVIDIA [Ff]abric ?[Mm]anager)",
        r"fabric ?manager.*version.*(?:does not|doesn't) match",
    ),
    unless=log(r"NV_WARN_NOTHING_TO_DO"),  # a host without NVSwitches, which needs none
    means="The Fabric Manager of this host is down, so NVSwitch does not work there.",
    confidence=0.85,
    remedies=(
        (
            "Install the Fabric Manager of exactly the driver's version and restart it with no "
            "job running; then reset the GPUs or reboot."
        ),
    ),
    next_steps=(
        "journalctl -u nvidia-fabricmanager; tail /var/log/fabricmanager.log",
        "nvidia-smi -q | grep -A4 Fabric",
    ),
    links=("https://docs.nvidia.com/datacenter/tesla/fabric-manager-user-guide/index.html",),
    matches=(
        (
            "Jul 01 13:06:53 node7 systemd[1]: nvidia-fabricmanager.service: Main process "
            "exited, code=exited, status=1/FAILURE"
        ),
        "Jul 01 13:06:53 node7 systemd[1]: Failed to start NVIDIA fabric manager service.",
        (
            "fabric manager NVIDIA GPU driver interface version 570.86.10 doesn't match with "
            "driver version 570.124.06. Please update with matching NVIDIA driver package."
        ),
    ),
    misses=(
        "Jul 01 13:06:53 node7 systemd[1]: Started NVIDIA fabric manager service.",
        (
            "nv-fabricmanager[4177]: request to query NVSwitch device information from NVSwitch "
            "driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]"
        ),
    ),
    outranks=("launcher-exit-code",),
)
