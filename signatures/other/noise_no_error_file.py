"""A hint of torchrun about error files, printed with every failure.

The traceback of the worker stands in its own output. With the decorator record on the main
function it would stand in the launcher's table, too.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-no-error-file",
    category="healthy",
    kind=Kind.NOISE,
    title="torchelastic has no error file for the traceback",
    when=log(
        r"no error file defined for parent, to copy child error file",
        r"To enable traceback see: https://pytorch\.org/docs/stable/elastic/errors\.html",
        r"FAILED with no error file\. Decorate your entrypoint fn with @record",
    ),
    means=(
        "A hint on how to get the worker's traceback into the launcher's table. It says nothing "
        "on why the worker failed."
    ),
    confidence=0.9,
    links=("https://pytorch.org/docs/stable/elastic/errors.html",),
    matches=(
        (
            "E1121 02:12:57.4 17467 "
            "torch/distributed/elastic/multiprocessing/errors/error_handler.py:141] no error "
            "file defined for parent, to copy child error file "
            "(/tmp/torchelastic_1/none/attempt_0/1/error.json)"
        ),
        (
            "  traceback : To enable traceback see: "
            "https://pytorch.org/docs/stable/elastic/errors.html"
        ),
        (
            "('local_rank %s FAILED with no error file. Decorate your entrypoint fn with @record "
            "for traceback info."
        ),
    ),
    misses=("  error_file: /tmp/torchelastic_1/none/attempt_0/1/error.json",),
)
