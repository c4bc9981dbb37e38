"""Names of packages: which are training frameworks, which are libraries, what is in Python itself.

Data for ``usercode``. A name here means the package folder of that name; a user's own file
``evaluate.py`` is not the package ``evaluate``.
"""

from __future__ import annotations

import sys


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Training frameworks and engines, by their top-level package.
FRAMEWORKS = _words(
    """
    accelerate apex areal axolotl catalyst colossalai composer deepspeed detectron2 diffusers
    fairscale fairseq fairseq2 fastai horovod ignite lightning lightning_fabric
    lightning_utilities litgpt llamafactory llmfoundry megatron mmcv mmengine modelscope
    nanotron nemo open_clip open_clip_train openrlhf peft pytorch_lightning ray
    sentence_transformers setfit sglang slime swift timm torchtitan torchtune transformer_engine
    transformers trl unsloth verl vllm xtuner
    """
)

# Packages that people install and do not debug, by their top-level package or module.
LIBRARIES = _words(
    """
    absl aiobotocore aiofiles aiohttp aiosignal albumentations anyio arrow asttokens attr attrs
    av azure backoff bitsandbytes blobfile blosc blosc2 boto boto3 botocore braceexpand
    cachetools certifi cffi charset_normalizer clearml click cloudpathlib cloudpickle
    coloredlogs comet_ml coverage cudf cugraph cupy curio cv2 cython dask datatrove debugpy
    decord deepspeed_kernels dill einops executing faiss fasteners faster_fifo ffrecord filelock
    fire flash_attn fsspec functorch gcsfs gdown git google googleapiclient grpc h11 h2 h5py
    hf_transfer hf_xet hpack httpcore httpcore2 httplib2 httpx httpx2 huggingface_hub
    humanfriendly hydra hyperframe idna imageio indexed_gzip intel_extension_for_pytorch ipdb
    ipykernel IPython jax jaxlib jedi jinja2 joblib jsonargparse jsonschema jupyter_client
    jupyter_core kaggle_hub kombu librosa lightgbm lightning_sdk lmdb loguru lz4 markupsafe
    matplotlib matplotlib_inline ml_dtypes mlflow mmap_ninja more_itertools mpi4py mpmath
    msgpack msgspec multidict multipart multiprocess mypyc neptune nest_asyncio networkx ninja
    nltk numba numcodecs numpy nvidia nvtx oauthlib omegaconf onnx onnxruntime openai
    opentelemetry optree orjson oss2 outcome packaging pandas paramiko parso pathos pathspec
    petastorm pexpect pika PIL pip pkg_resources platformdirs pluggy polars portalocker prefect
    prometheus_client prompt_toolkit propcache psutil psycopg2 ptpython pudb pure_eval py4j
    pyarrow pyarrow_hotfix pybind11 pycocotools pydantic pydantic_core _pydev_bundle
    pydev_ipython _pydev_runfiles pydevconsole pydevd _pydevd_bundle pydevd_bundle
    _pydevd_frame_eval pygments pymongo pymysql pynvml pyspark _pytest pytest pytz ratelimit
    redis regex requests requests_oauthlib retrying rich rmm s3fs s3torchconnector s3transfer
    sacremoses safetensors scipy seaborn selenium sentencepiece sentry_sdk setproctitle
    setuptools simplejson simsimd six skimage sklearn smart_open sniffio socks soundfile
    sqlalchemy stack_data starlette swanlab sympy tblib tenacity tensorboard
    tensorboard_data_server tensorboardX tensorflow tensorrt tensorstore termcolor tiktoken
    tokenizers toolz torch torch_geometric torch_npu torch_xla torchao torchaudio torchcomms
    torchdata torchelastic torchgen torchmetrics torchrec torchsnapshot torchtext torchvision
    torchx torio tornado tqdm traitlets trio triton truststore tvm typeguard typer
    typing_extensions ucp ujson urllib3 uvicorn uvloop wandb watchfiles webdataset websocket
    websockets werkzeug wrapt xarray xformers xgboost xxhash yaml yarl zarr zmq zstandard zstd
    """
)

# Packages (folders) of the standard library; every other name in it is a single file.
STDLIB_PACKAGES = _words(
    """
    asyncio collections compression concurrent ctypes curses dbm distutils email encodings
    ensurepip html http idlelib importlib json lib2to3 logging multiprocessing pathlib profiling
    pydoc_data re sqlite3 string sysconfig tkinter tomllib turtledemo unittest urllib venv wsgiref
    xml xmlrpc zipfile zoneinfo
    """
)
# These were files in some version, so "pathlib.py" is Python's own; "email.py" is a user's.
ONLY_PACKAGES = STDLIB_PACKAGES - _words("compression pathlib string sysconfig zipfile")

# Names that the Python that runs this may not know: older or newer than itself.
STDLIB_MODULES = frozenset(sys.stdlib_module_names) | _words(
    """
    annotationlib asynchat asyncore cgi cgitb crypt distutils imp pipes smtpd sre_compile
    sre_parse telnetlib uu
    """
)

# A user's folder may be called "datasets"; these are files of the package of that name.
HF_DATASETS = _words(
    """
    arrow_dataset.py arrow_reader.py arrow_writer.py builder.py combine.py data_files.py
    dataset_dict.py distributed.py download features filesystems fingerprint.py formatting
    hub.py info.py inspect.py io iterable_dataset.py load.py packaged_modules parallel search.py
    streaming.py table.py utils
    """
)

# Console scripts in front of the user's program; they have no extension.
SCRIPTS = _words(
    """
    accelerate composer deepspeed horovodrun ipython jupyter litgpt mpirun py.test pytest ray
    torchrun torchx tune vllm
    """
)

# Framework packages that are often run from a checkout, with what lies inside them, so that a
# user's project folder of the same name is not mistaken for them.
CHECKOUTS: dict[str, frozenset[str]] = {
    "megatron": _words(
        """
        arguments.py checkpointing.py core data fused_kernels initialize.py inference legacy
        model mpu optimizer p2p_communication.py rl schedules.py tokenizer training training.py
        """
    ),
    "deepspeed": _words("comm module_inject moe ops pipe runtime sequence utils"),
    "nemo": _words("collections core lightning utils"),
    "fairseq": _words("checkpoint_utils.py data distributed models tasks trainer.py"),
    "transformers": _words("generation integrations models trainer.py utils"),
    "accelerate": _words("accelerator.py data_loader.py state.py utils"),
    "colossalai": _words("booster pipeline shardformer zero"),
    "torchtitan": _words("components distributed models tools train.py trainer.py"),
    "verl": _words("single_controller trainer utils workers"),
    "vllm": _words("distributed engine executor model_executor v1 worker"),
    "sglang": _words("srt launch_server.py"),
    "detectron2": _words("data engine modeling utils"),
}

# Libraries that are one file.
SINGLE_MODULES = _words("six.py typing_extensions.py decorator.py lmdb.py portpicker.py")
