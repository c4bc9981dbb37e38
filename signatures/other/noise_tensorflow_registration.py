"""Lines that TensorFlow prints when something imports it.

TensorBoard and some dataset libraries pull it in. The letter E in front does not mean that
something failed.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-tensorflow-registration",
    category="healthy",
    kind=Kind.NOISE,
    title="TensorFlow's start-up messages",
    when=log(
        (
            r"Unable to register cu(?:DNN|BLAS|FFT) factory: Attempting to register factory for "
            r"plugin"
        ),
        r"TF-TRT Warning: Could not find TensorRT",
        r"oneDNN custom operations are on\. You may see slightly different numerical results",
    ),
    means=(
        "TensorFlow was imported, for TensorBoard mostly, and says so at level ERROR. It is "
        "harmless."
    ),
    confidence=0.9,
    matches=(
        (
            "E0000 00:00:1732154827.1 4711 cuda_dnn.cc:8310] Unable to register cuDNN factory: "
            "Attempting to register factory for plugin cuDNN when one has already been registered"
        ),
        (
            "W tensorflow/compiler/tf2tensorrt/utils/py_utils.cc:38] TF-TRT Warning: Could not "
            "find TensorRT"
        ),
        (
            "I tensorflow/core/util/port.cc:113] oneDNN custom operations are on. You may see "
            "slightly different numerical results due to floating-point round-off errors"
        ),
    ),
    misses=("RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",),
)
