"""DDP notes that find_unused_parameters=True was not needed.

It is about speed: DDP walks the graph in every step to look for unused parameters, and there
are none. So the line says the contrary of what its words suggest at a glance.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-ddp-find-unused",
    category="healthy",
    kind=Kind.NOISE,
    title="DDP searched for unused parameters and found none",
    when=log(
        (
            r"find_unused_parameters=True was specified in DDP constructor, but did not find any "
            r"unused parameters"
        ),
    ),
    means="DDP says that a setting costs time without need. All parameters were used.",
    confidence=0.9,
    matches=(
        (
            "[W1121 02:09:20.529252935 reducer.cpp:1529] Warning: find_unused_parameters=True "
            "was specified in DDP constructor, but did not find any unused parameters in the "
            "forward pass."
        ),
        (
            "[W reducer.cpp:1346] Warning: find_unused_parameters=True was specified in DDP "
            "constructor, but did not find any unused parameters in the forward pass."
        ),
    ),
    misses=(
        (
            "RuntimeError: Expected to have finished reduction in the prior iteration before "
            "starting a new one."
        ),
    ),
)
