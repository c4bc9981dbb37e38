"""Files that lie elsewhere: ``s3://``, ``gs://``, ``hdfs://``, ``https://``, by way of fsspec.

They are streamed: nothing is copied to this machine but what archives are unpacked to, as
for any archive. Small files are fetched many at once, since each costs the way there and back.
fsspec is imported when such a target is named, and only then.
"""

from __future__ import annotations

import io
import itertools
import re
import weakref
from collections.abc import Callable
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from whyhang.analyzer.errors import TargetError
from whyhang.analyzer.facts import Record
from whyhang.collectors.files import naming, spool
from whyhang.collectors.files.spool import MIB

SMALL = MIB // 2  # files of up to so many bytes are fetched together
TOGETHER = 64
KEPT_BYTES = 256 * MIB
"""Small files are kept until they are more than this in all: each is opened two or three times."""

READ_BYTES = MIB

_URL = re.compile(r"[a-z][a-z0-9+.-]*(?:::[a-z][a-z0-9+.-]*)*://")
_DENIED = re.compile(
    r"credential|permission|denied|forbidden|unauthori[sz]ed|\b40[13]\b", re.IGNORECASE
)
_MISSING = re.compile(r"no such|not ?found|does not exist|\b404\b", re.IGNORECASE)

T = TypeVar("T")


def is_remote(target: str) -> bool:
    """Tell a URL from a path."""
    return _URL.match(target) is not None


class RemoteFile(Record):
    """A file that lies elsewhere; ``size`` is -1 where the server does not tell."""

    name: str
    size: int
    folder: RemoteFolder

    @property
    def path(self) -> None:
        """It has no path on this machine."""

    def open(self) -> BinaryIO:
        """Return a stream of its bytes. Raises OSError."""
        return self.folder.open(self)


class RemoteFolder:
    """What a URL names: its files, in the order of their names."""

    def __init__(self, url: str) -> None:
        """List them. Raises ``TargetError`` where they cannot be reached."""
        self._number = next(_NUMBERS)
        _FOLDERS[self._number] = self
        self._files, self._path = _opened(url)
        self._kept: dict[str, bytes] = {}
        self._kept_bytes = 0
        self._places: dict[str, int] = {}
        self.files: list[RemoteFile] = []
        listed: dict[str, dict[str, Any]] = _tried(url, self._listed)
        if not listed:
            raise _missing(url)
        self.is_file = list(listed) == [self._path]
        for path in sorted(listed, key=naming.natural):
            size = listed[path].get("size")
            self._places[path] = len(self.files)
            self.files.append(RemoteFile(name=path, size=-1 if size is None else size, folder=self))

    def __reduce__(self) -> tuple[Any, ...]:
        """Travel to a worker with its listing, and come back from there as its number."""
        if spool.here is not None:
            return folder_of, (self._number,)
        return _with_state, ({**self.__dict__, "_kept": {}, "_kept_bytes": 0},)

    def shown(self, file: RemoteFile) -> str:
        """Name a file relative to what was asked for; a single one by its own name."""
        start = self._path.partition("*")[0].rpartition("/")[0] if "*" in self._path else self._path
        inside = file.name.removeprefix(start.rstrip("/") + "/")
        name = file.name.rstrip("/").rpartition("/")[2] if self.is_file else inside
        return name.partition("?")[0] or "index"

    def open(self, file: RemoteFile) -> BinaryIO:
        """Return a stream of the bytes of a file. Raises OSError."""
        if 0 <= file.size <= SMALL:
            return io.BytesIO(self._small(file))
        stream: Any = _or_os_error(
            lambda: self._files.open(file.name, "rb", block_size=4 * MIB, cache_type="readahead")
        )
        return io.BufferedReader(_Stream(stream), READ_BYTES)

    def _listed(self) -> dict[str, dict[str, Any]]:
        if "*" in self._path or "[" in self._path:
            listed = self._files.glob(self._path, detail=True)
        elif not self._path.endswith("/") and (
            (info := self._files.info(self._path)).get("type") == "file"
        ):
            return {self._path: info}
        else:
            listed = self._files.find(self._path, detail=True)
        files = {path: info for path, info in listed.items() if info.get("type") == "file"}
        untold = [path for path, info in files.items() if info.get("size") is None]
        for path, size in zip(untold, self._files.sizes(untold) if untold else (), strict=True):
            files[path] = {**files[path], "size": size}
        return files

    def _small(self, file: RemoteFile) -> bytes:
        """Give a small file; the ones that follow it are fetched with it."""
        if file.name not in self._kept:
            place = self._places[file.name]
            near = self.files[place : place + TOGETHER]
            names = [one.name for one in near if 0 <= one.size <= SMALL]
            if self._kept_bytes > KEPT_BYTES:
                self._kept.clear()
                self._kept_bytes = 0
            fetched = _or_os_error(lambda: self._files.cat(names, on_error="return"))
            if not isinstance(fetched, dict):  # what some give of a single file
                fetched = {names[0]: fetched}
            for name, data in fetched.items():
                if isinstance(data, bytes):
                    self._kept[name] = data
                    self._kept_bytes += len(data)
                elif name == file.name:
                    raise OSError(_reason(data))
        return self._kept[file.name]


_NUMBERS = itertools.count()
_FOLDERS: weakref.WeakValueDictionary[int, RemoteFolder] = weakref.WeakValueDictionary()


def folder_of(number: int) -> RemoteFolder:
    """Return the folder that was listed in this process under a number."""
    return _FOLDERS[number]


def _with_state(state: dict[str, Any]) -> RemoteFolder:
    folder = RemoteFolder.__new__(RemoteFolder)
    folder.__dict__.update(state)
    return folder


def check(url: str) -> None:
    """Find out whether a URL can be read at all. Raises ``TargetError``."""
    files, path = _opened(url)
    if "*" not in path and "[" not in path:
        _tried(url, lambda: files.info(path))


def without_secrets(url: str) -> str:
    """Leave out user, password and query of a URL: signed ones carry a key."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


class _Stream(io.RawIOBase):
    """A file of fsspec as a stream of Python's own, whose troubles are all OSErrors."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return bool(self._file.seekable())

    def readinto(self, target: Any) -> int:
        data: bytes = _or_os_error(lambda: self._file.read(len(target)))
        target[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return int(_or_os_error(lambda: self._file.seek(offset, whence)))

    def tell(self) -> int:
        return int(self._file.tell())

    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()


def _opened(url: str) -> tuple[Any, str]:
    """Give the file system and the path on it. Raises ``TargetError``."""
    protocol = url.partition("://")[0]
    try:
        import fsspec  # noqa: PLC0415 - heavy, and needed for such targets only
        from fsspec.registry import known_implementations  # noqa: PLC0415
    except ImportError:
        raise TargetError(
            f"{protocol}:// cannot be read here: fsspec is not installed",
            "pip install 'whyhang[remote]'",
        ) from None
    known = fsspec.available_protocols()
    missing = [part for part in protocol.split("::") if part not in known]
    if missing:
        raise TargetError(
            f"{missing[0]}:// is no protocol that fsspec knows",
            "Known are s3, gs, hdfs, abfs, http, https, sftp and others: see fsspec's registry.",
        )
    try:
        files, path = fsspec.core.url_to_fs(url)
    except ImportError as error:
        package = str(known_implementations.get(protocol, {}).get("err") or error)
        raise TargetError(
            f"{protocol}:// cannot be read here: a package for it is not installed",
            f"{package.rstrip('.')}; pip install 'whyhang[remote]' brings s3, gs and http.",
        ) from None
    except Exception as error:
        raise _trouble(url, error) from error
    return files, path


def _tried(url: str, do: Callable[[], T]) -> T:
    try:
        return do()
    except Exception as error:
        raise _trouble(url, error) from error


def _or_os_error(do: Callable[[], T]) -> T:
    try:
        return do()
    except OSError:
        raise
    except Exception as error:  # each file system raises its own
        raise OSError(_reason(error)) from error


def _trouble(url: str, error: BaseException) -> TargetError:
    if isinstance(error, FileNotFoundError) and error.__cause__ is not None:
        error = error.__cause__  # as the file system of the web has it, whatever happened
    why = _reason(error)
    if isinstance(error, FileNotFoundError) or _MISSING.search(why):
        return _missing(url)
    if isinstance(error, PermissionError) or _DENIED.search(f"{type(error).__name__} {why}"):
        return TargetError(
            f"{without_secrets(url)} may not be read: {why}",
            "Log in as for the store's own command line (aws, gcloud, kinit), in this shell; "
            "fsspec takes the same credentials.",
        )
    return TargetError(
        f"{without_secrets(url)} cannot be reached: {why}",
        "Check the address, the network and the proxy; or copy the files here and name the copy.",
    )


def _missing(url: str) -> TargetError:
    return TargetError(
        f"nothing is at {without_secrets(url)}",
        "Check the spelling; a folder's name may need a / at its end.",
    )


def _reason(error: BaseException) -> str:
    """Say an error in a line; addresses in it without what may be secret."""
    text = " ".join(str(error).split()) or type(error).__name__
    text = re.sub(r"\b[a-z0-9+]+://[^\s'\"]+", lambda match: without_secrets(match[0]), text)
    return text[:160]
