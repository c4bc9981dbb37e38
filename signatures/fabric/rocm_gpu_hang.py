"""AMD's runtime reports that a GPU hangs.

The driver found that the GPU does not go on and reset it; every process that uses it gets this
line and aborts. A kernel that never ends, firmware, power or the board. The number is that of
the runtime's agent (CPUs are counted, too), not a rank and not a GPU index.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="rocm-gpu-hang",
    category="gpu-hardware-xid",
    kind=Kind.CAUSE,
    title="AMD's runtime says that the GPU of {who} hangs",
    when=log(
        r"HW Exception by GPU node-\d+ \(Agent handle: \S+\) reason ?:",
        r"\bamdgpu\b.*: GPU reset begin",
        r"\[drm:amdgpu_job_timedout\b.*\bring \S+ timeout",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The GPU stopped working on what it was given and was reset. All processes that used it "
        "abort, and the other ranks wait for them."
    ),
    confidence=0.85,
    remedies=(
        "Take the host out of the job and restart from the last checkpoint.",
        (
            "If it happens on several hosts, look for the kernel that hangs (AMD_LOG_LEVEL=4) "
            "and at the versions of driver and firmware."
        ),
    ),
    next_steps=(
        "dmesg -T | grep -i amdgpu  # on that host",
        "Look at the state of the GPU with amd-smi or rocm-smi --showrasinfo on that host",
    ),
    links=("https://rocm.docs.amd.com/",),
    matches=(
        "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang",
        "[12345.678901] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!",
        (
            "[12345.678901] [drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, "
            "signaled seq=12, emitted seq=14"
        ),
    ),
    misses=("[12345.678901] amdgpu 0000:c1:00.0: amdgpu: Using BACO for runtime pm",),
    outranks=("launcher-exit-code", "shell-saw-killed"),
)
