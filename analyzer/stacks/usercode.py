"""Whose code a frame is: the user's own, a training framework's, or a library's.

A report points at the user's own line, so frames of torch, of the standard library and of
other packages must be distinguished from it by their file alone. The file may be an absolute path
(``/opt/conda/lib/python3.10/site-packages/torch/…``) or what py-spy shortens it to: the path
from the outermost package folder (``torch/distributed/distributed_c10d.py``, ``threading.py``,
``train.py``). Frameworks (Megatron, DeepSpeed, transformers, …) are a third answer: people
read, patch and blame them, but their own code comes first.
"""

import enum
import functools
import posixpath
import re
import sys
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import Frame
from whyhang.analyzer.toml import table

_TABLE = table(__package__, "packages.toml")
"""Names of packages: training frameworks, libraries, what is in Python itself."""


def _words(key: str) -> frozenset[str]:
    return frozenset(_TABLE[key].split())


FRAMEWORKS = _words("frameworks")
LIBRARIES = _words("libraries")
STDLIB_PACKAGES = _words("stdlib_packages")
ONLY_PACKAGES = STDLIB_PACKAGES - _words("stdlib_once_files")
STDLIB_MODULES = frozenset(sys.stdlib_module_names) | _words("stdlib_modules")
HF_DATASETS = _words("hf_datasets")
SCRIPTS = _words("scripts")
SINGLE_MODULES = _words("single_modules")
CHECKOUTS = {name: frozenset(inside.split()) for name, inside in _TABLE["checkouts"].items()}


class Origin(enum.Enum):
    """Whose code it is."""

    USER = "user"
    FRAMEWORK = "framework"
    LIBRARY = "library"


_STDLIB = re.compile(r"(?:^|/)lib(?:64)?/(?:python|pypy)\d+(?:\.\d+)?t?(?:/lib-dynload)?/")
_ZIPPED = re.compile(r"(?:^|/)python\d+\.zip/")
_GENERATED = re.compile(r"(?:^|/)(?:torchinductor_[^/]*|\.triton/cache|torch_extensions)/")
_CELL = re.compile(r"^<(?:ipython-input|stdin|doctest|cell|console)|/ipykernel_\d+/")
_NATIVE = re.compile(r"\.(?:so(?:\.[\d.]+)?|dylib|pyd|c|cc|cpp|cxx|cu|h|hpp|pyx|pxd|rs|S)$")
# Sources of torch outside of site-packages: a build tree or an editable install.
_TORCH_TREE = re.compile(
    r"/(torch/(?:_dynamo|_inductor|autograd|cuda|distributed|fx|jit|multiprocessing|nn|optim|utils)/)"
)


def origin(frame: Frame) -> Origin:
    """Return whose code a frame is. Native frames are libraries, whoever compiled them."""
    return Origin.LIBRARY if frame.native else origin_of_file(frame.file)


@functools.lru_cache(maxsize=65536)
def origin_of_file(file: str) -> Origin:
    """Return whose code a Python file is, by its absolute path or py-spy's short form of it."""
    if file.startswith("<"):
        return Origin.USER if _CELL.search(file) else Origin.LIBRARY
    if _NATIVE.search(file) or _GENERATED.search(file) or not file:
        return Origin.LIBRARY
    if _CELL.search(file):
        return Origin.USER
    if (inside := _package_path(file)) is not None:
        # What is installed and not known may be the user's own project.
        known = _top(inside) in LIBRARIES or _top(inside) == "datasets"
        return Origin.LIBRARY if known else Origin.FRAMEWORK
    if _STDLIB.search(file) or _ZIPPED.search(file):
        return Origin.LIBRARY
    return _origin_of_tree(file) if file.startswith("/") else _origin_of_short(file)


def is_library(frame: Frame) -> bool:
    """Return whether a frame is neither the user's own nor a framework's."""
    return origin(frame) is Origin.LIBRARY


def is_called_at_exit(frames: Sequence[Frame]) -> bool:
    """Return whether the interpreter itself has called what a main thread is in.

    Else the program's ``<module>`` stands below all, or what runs it. ``frames``: innermost first.
    """
    outermost = next((frame for frame in reversed(frames) if not frame.native), None)
    if outermost is None:
        return False
    return outermost.function != "<module>" and not is_library(outermost)


def user_path(frames: Iterable[Frame]) -> list[Frame]:
    """Return the frames of a stack that are no library's, outermost first."""
    own = [frame for frame in frames if not frame.native and not is_library(frame)]
    return own[::-1]


COMPREHENSIONS = {"<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>"}


def user_frame(frames: Iterable[Frame]) -> Frame | None:
    """Find the frame to point at: the innermost of the user's own, else of a framework.

    A comprehension is a frame of its own until Python 3.12; the function around it has a name.
    """
    framework: Frame | None = None
    nested: Frame | None = None
    for frame in frames:
        whose = origin(frame)
        if nested is not None:
            return frame if whose is Origin.USER and frame.file == nested.file else nested
        if whose is Origin.USER and frame.function.rpartition(".")[2] not in COMPREHENSIONS:
            return frame
        if whose is Origin.USER:
            nested = frame
        elif whose is Origin.FRAMEWORK:
            framework = framework or frame
    return nested or framework


@functools.lru_cache(maxsize=65536)
def short(path: str) -> str:
    """Cut a path to its readable tail: from the package on, or the last two components."""
    if path.startswith("<") or not path.startswith("/"):
        return path
    if (inside := _package_path(path)) is not None:
        return inside
    stdlib = _STDLIB.search(path) or _ZIPPED.search(path)
    if stdlib is not None:
        return path[stdlib.end() :]
    return _framework_tail(path) or "/".join(path.split("/")[-2:]).lstrip("/")


def line_of(frame: Frame) -> str:
    """Name the line of a place: "train.py:40"."""
    return short(frame.file) + ("" if frame.line is None else f":{frame.line}")


def in_words(frame: Frame) -> str:
    """Name a place for people: "step (train.py:40)"."""
    return f"{frame.function} ({line_of(frame)})"


@functools.lru_cache(maxsize=262144)
def normal(frame: Frame) -> str:
    """Return a key that is equal for the same place on all ranks, whatever tool printed it.

    Python 3.10 prints ``forward`` where 3.11 prints ``Net.forward``, and one tool prints the
    full path where another prints ``train.py``. The line stays: it is part of the place.
    """
    if frame.native:
        # An address without a symbol differs on every rank.
        name = "?" if frame.function.startswith("0x") else frame.function
        return f"{name} [{posixpath.basename(frame.file)}]"
    name = frame.function.rpartition(".")[2]
    file = short(frame.file)
    if origin_of_file(frame.file) is Origin.USER:
        file = posixpath.basename(file)
    return f"{name} ({file}:{frame.line})"


def _top(path: str) -> str:
    return path.split("/", 1)[0].removesuffix(".py")


def _package_path(file: str) -> str | None:
    before, _, after = file.rpartition("-packages/")
    if not before.endswith(("site", "dist")):
        return None
    return after.rpartition(".egg/")[2]


def _framework_tail(file: str) -> str | None:
    """Find torch or a framework in a checkout: /w/Megatron-LM/megatron/core/x.py."""
    tree = _TORCH_TREE.search(file)
    if tree is not None:
        return file[tree.start(1) :]
    parts = file.split("/")
    for index, part in enumerate(parts[:-1]):
        if part in CHECKOUTS and parts[index + 1] in CHECKOUTS[part]:
            return "/".join(parts[index:])
    return None


def _origin_of_tree(file: str) -> Origin:
    tail = _framework_tail(file)
    if tail is not None:
        return Origin.LIBRARY if tail.startswith("torch/") else Origin.FRAMEWORK
    name = posixpath.basename(file)
    if name in SCRIPTS and posixpath.basename(posixpath.dirname(file)) in {"bin", "Scripts"}:
        return Origin.LIBRARY
    return Origin.USER


def _origin_of_short(file: str) -> Origin:
    """Judge what py-spy shortens a path to."""
    first, slash, rest = file.partition("/")
    if not slash:
        top = first.removesuffix(".py")
        module = first.endswith(".py") and top in STDLIB_MODULES and top not in ONLY_PACKAGES
        return Origin.LIBRARY if module or first in SINGLE_MODULES | SCRIPTS else Origin.USER
    if first in FRAMEWORKS:
        return Origin.FRAMEWORK
    if first == "datasets":
        return Origin.LIBRARY if rest.split("/")[0] in HF_DATASETS else Origin.USER
    return Origin.LIBRARY if first in LIBRARIES or first in STDLIB_PACKAGES else Origin.USER
