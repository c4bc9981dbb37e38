"""Warnings about network hardware that MPI then does without.

The openib component is deprecated in favour of UCX and warns about any card; no preset
parameters for a device; no relevant high-speed interfaces. In jobs that use MPI only to start
processes they mean nothing.

They cost speed at most.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-noise-network",
    category="healthy",
    kind=Kind.NOISE,
    title="MPI did not use a network component",
    when=log(
        r"There was an error initializing an OpenFabrics device",
        r"No (?:OpenFabrics connection schemes|preset parameters) were (?:reported|found)",
        r"high-performance Open MPI point-to-point messaging module",
        r"was unable to find any relevant network interfaces",
        r"There is at least non-excluded one OpenFabrics device found",
        r"Open MPI's OFI driver detected multiple equidistant NICs",
        r"By default, for Open MPI 4\.0 and later, infiniband ports on a device",
    ),
    means="MPI uses another network than this one; nothing failed.",
    confidence=0.9,
    matches=(
        "WARNING: There was an error initializing an OpenFabrics device.",
        "WARNING: No preset parameters were found for the device that Open MPI",
        "[[12345,1],0]: A high-performance Open MPI point-to-point messaging module",
        "was unable to find any relevant network interfaces:",
        "WARNING: There is at least non-excluded one OpenFabrics device found,",
        "Open MPI's OFI driver detected multiple equidistant NICs from the current process,",
        "By default, for Open MPI 4.0 and later, infiniband ports on a device",
    ),
    misses=("The OpenFabrics (openib) BTL failed to initialize while trying to",),
)
