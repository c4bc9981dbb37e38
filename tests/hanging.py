"""A file system that never answers, as of a file server that is gone."""

from __future__ import annotations

import contextlib
import ctypes
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

_NOSUID, _NODEV, _DETACH = 2, 4, 2

needs_fuse = pytest.mark.skipif(
    os.geteuid() != 0 or not Path("/dev/fuse").exists(), reason="needs root and /dev/fuse"
)


@contextlib.contextmanager
def mounted(folder: Path) -> Iterator[None]:
    """Mount it over a folder: whatever is asked of it waits until the end."""
    library = ctypes.CDLL(None, use_errno=True)
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    path = os.fsencode(folder)
    if library.mount(b"gone", path, b"fuse.gone", _NOSUID | _NODEV, options):
        os.close(device)
        pytest.skip(f"a file system cannot be mounted here ({os.strerror(ctypes.get_errno())})")
    try:
        yield
    finally:
        library.umount2(path, _DETACH)
        os.close(device)  # whoever waits gets an error now
