"""NCCL looks for plugins that need not exist.

A missing libnccl-net.so, tuner, profiler or env plugin is reported at INFO level, with a result
such as 17 or 11 or "Could not find". NCCL then uses its own network code.

Only on clusters whose network needs a plugin (EFA, some Ethernet fabrics) does it cost speed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="nccl-noise-plugin",
    category="healthy",
    kind=Kind.NOISE,
    title="NCCL found no plugin",
    when=log(
        r"Plugin load returned \d+",
        r"Plugin load \(\S+\) returned \d+",
        (
            r"(?:NET|GIN|RMA|TUNER|PROFILER|ENV)/Plugin ?: (?:Could not find|No plugin found|"
            r"Failed to find)"
        ),
        r"No plugin found \(libnccl-\w+\.so\)",
        r"Failed to find nccl\w+[Pp]lugin_v\d+ symbol",
    ),
    means="NCCL works without these plugins.",
    confidence=0.9,
    matches=(
        (
            "node3:99:140 [1] NCCL INFO NET/Plugin : Plugin load returned 17 : libnccl-net.so: "
            "cannot open shared object file: No such file or directory."
        ),
        "node3:99:140 [1] NCCL INFO NET/Plugin: Could not find: libnccl-net.so.",
        "node3:99:140 [1] NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so",
        "node3:99:140 [1] NCCL INFO NET/Plugin: Failed to find ncclCollNetPlugin_v8 symbol.",
        (
            "node3:99:140 [1] NCCL INFO NET/Plugin: Plugin load (libnccl-net.so) returned 2 : "
            "libnccl-net.so: cannot open shared object file"
        ),
        (
            "node3:99:140 [1] NCCL INFO NET/Plugin: No plugin found (libnccl-net.so), using "
            "internal implementation"
        ),
    ),
    misses=(
        (
            "node3:99:140 [1] plugin/net.cc:310 NCCL WARN Comm config netName (Socket) does "
            "not match the parent (IB)"
        ),
    ),
)
