"""What is sent to a host so that whyhang runs there: first words, and a self-contained file.

The file is a zip of whyhang and what it needs, as installed here, for hosts of the same Python and
kind of machine. For others pip fetches the wheels, where it reaches a package index. Both are kept
in the user's cache folder. (A shiv or pex unpacks itself into the home of whoever runs it, and
would stay there.)
"""

import base64
import contextlib
import functools
import hashlib
import importlib.util
import io
import platform
import sys
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import whyhang
from whyhang import __version__
from whyhang.analyzer.facts import Record
from whyhang.collectors import cache
from whyhang.collectors.hosts import boot
from whyhang.collectors.hosts.wire import Answer
from whyhang.collectors.live.programs import run
from whyhang.collectors.stacks import pyspy

PACKAGES = ("msgspec", "regex", "tomli", "zstandard", "hyperscan", "pynvml")
"""What far sides import; they run without the last two."""

WHEELS = ("msgspec", "regex", "tomli", "zstandard", "nvidia-ml-py", "py-spy")
ROOMS = ("analyzer", "collectors", "signatures")
PIP_LIMIT = 20.0
KIND = "hosts"
KEEP = 4  # files; older ones are deleted

_LEFT_OUT = ("/tests/", "/__pycache__/", "/_cffi.", "/backend_cffi", "/extension.c")
_MOMENT = (2020, 1, 1, 0, 0, 0)  # so that equal content is an equal file

_SCRIPT = (
    "n=${WHYHANG_HOST:-${SLURMD_NODENAME:-$(hostname 2>/dev/null || uname -n)}}; "
    'echo "@whyhang1 $n ! alive"; '
    'for p in "$1" python3 python3.14 python3.13 python3.12 python3.11 python3.10 python; do '
    'command -v "$p" >/dev/null 2>&1 && '
    "\"$p\" -c 'import sys;sys.exit(sys.version_info<(3,10))' 2>/dev/null && "
    'exec "$p" -uc "$2" "$n"; done; '
    'echo "@whyhang1 $n ! no-python"'
)
_FIRST = (
    "import sys;del sys.path[0];exec(__import__('base64').b64decode(sys.stdin.buffer.readline()))"
)


def words() -> tuple[str, ...]:
    """Return the words that are run on a host: a shell finds a Python, which reads the rest."""
    return ("sh", "-c", _SCRIPT, "whyhang", sys.executable, _FIRST)


def first_words() -> bytes:
    """Return the line of standard input that the Python found there runs."""
    root = Path(whyhang.__file__).parent.parent
    roots = [str(root), *(path for path in sys.path if path and path != str(root))]
    text = Path(boot.__file__).read_text(encoding="utf-8")
    config: Mapping[str, object] = {"version": __version__, "roots": roots}
    head, future, rest = text.partition("from __future__ import annotations\n")
    settings = f"CONFIG = {config!r}\nimport sys\nCONFIG['name'] = sys.argv[1]\n"
    return base64.b64encode(f"{head}{future}{settings}{rest}".encode()) + b"\n"


class Platform(Record):
    """For what a self-contained file is made: "3.11", "x86_64", "Linux"."""

    python: str
    machine: str
    system: str


def here() -> Platform:
    """Return what this whyhang runs on."""
    python = f"{sys.version_info[0]}.{sys.version_info[1]}"
    return Platform(python=python, machine=platform.machine(), system=platform.system())


@functools.cache
def self_contained(wanted: Platform) -> bytes | None:
    """Return the zip for hosts of this kind, kept from before or new; None if it cannot be made."""
    own, local = dict(_own_files()), wanted == here()
    files = own | dict(_installed_files()) if local else own
    name = f"far-{__version__}-{wanted.system}-{wanted.machine}-{wanted.python}"
    name += f"-{_state(files.values())}.zip"
    data = cache.kept(KIND, name)
    if data is not None:
        return data
    with tempfile.TemporaryDirectory(prefix="whyhang-") as folder:
        if not local:
            if not _fetch(wanted, folder):
                return None
            root = Path(folder)
            paths = (path for path in root.rglob("*") if path.is_file())
            files |= {str(path.relative_to(root)): path for path in paths}
        data = _zipped(files)
    cache.keep(KIND, name, data, most=KEEP)
    return data


def _own_files() -> Iterator[tuple[str, Path]]:
    root = Path(whyhang.__file__).parent
    inside = (path for room in ROOMS for path in (root / room).rglob("*.*"))
    for path in sorted([*root.glob("*.py"), *inside]):
        if path.suffix in {".py", ".toml"}:
            yield f"whyhang/{path.relative_to(root)}", path


def _installed_files() -> Iterator[tuple[str, Path]]:
    """Yield what whyhang needs from where it is installed, and py-spy."""
    for name in PACKAGES:
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        if spec.submodule_search_locations is None:
            yield origin.name, origin
            continue
        for path in sorted(origin.parent.rglob("*")):
            inside = f"{name}/{path.relative_to(origin.parent)}"
            if path.suffix in {".py", ".so"} and not any(
                part in f"/{inside}" for part in _LEFT_OUT
            ):
                yield inside, path
    for name, module in list(sys.modules.items()):
        if name.endswith("__mypyc") and module.__file__:  # beside tomli, which mypyc compiled
            yield Path(module.__file__).name, Path(module.__file__)
    program = Path(pyspy.executable())
    if program.is_file():
        yield "bin/py-spy", program


def _state(paths: Iterable[Path]) -> str:
    """Return a word that changes when one of the files does."""
    digest = hashlib.sha256()
    for path in paths:
        with contextlib.suppress(OSError):
            facts = path.stat()
            digest.update(f"{path} {facts.st_size} {facts.st_mtime_ns}\n".encode())
    return digest.hexdigest()[:16]


def _zipped(files: Mapping[str, Path]) -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=6) as archive:
        for name in sorted(files):
            member = zipfile.ZipInfo(name, _MOMENT)
            member.external_attr = (0o755 if name == "bin/py-spy" else 0o644) << 16
            archive.writestr(member, files[name].read_bytes(), zipfile.ZIP_DEFLATED)
    return target.getvalue()


def _fetch(wanted: Platform, folder: str) -> bool:
    """Have pip fetch the wheels of another platform; return whether it could."""
    if wanted.system != "Linux":
        return False
    tags = [f"manylinux{tag}_{wanted.machine}" for tag in ("2014", "_2_17", "_2_28", "_2_34")]
    number = wanted.python.replace(".", "")
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-input", "--target", folder]
    words += ["--only-binary=:all:", "--no-deps", "--retries", "0", "--timeout", "5"]
    words += ["--python-version", wanted.python, "--implementation", "cp", "--abi", f"cp{number}"]
    words += ["--abi", "abi3", "--abi", "none"]
    words += [word for tag in tags for word in ("--platform", tag)]
    return run(*words, *WHEELS, limit=PIP_LIMIT).code == 0


def fitting(hello: Answer) -> tuple[str, bytes] | None:
    """Choose a Python of a host and what to send for it: as here, else whatever pip can get."""
    for version in (here().python, hello.python):
        if version in hello.pythons and hello.libc == "glibc":
            wanted = Platform(python=version, machine=hello.machine, system=hello.system)
            if (program := self_contained(wanted)) is not None:
                return hello.pythons[version], program
    return None
