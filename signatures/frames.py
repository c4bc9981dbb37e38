"""The table of frames: which frame means waiting for what.

Knowledge about torch, the frameworks on it, Python and the libraries below, as data. What a
rule means is said in ``whyhang.analyzer.waits``; how sure it is, in its ``verified``. Adding a
frame is adding a ``WaitRule`` to one of the tables, and a program to ``tests/programs``.
"""

from __future__ import annotations

from whyhang.analyzer.waits import WaitRule
from whyhang.signatures._frames_c10d import C10D
from whyhang.signatures._frames_frameworks import FRAMEWORKS
from whyhang.signatures._frames_io import IO
from whyhang.signatures._frames_models import MODELS
from whyhang.signatures._frames_mpi import MPI
from whyhang.signatures._frames_native import NATIVE
from whyhang.signatures._frames_system import SYSTEM
from whyhang.signatures._frames_threads import WAITING
from whyhang.signatures._frames_torch import TORCH

TABLE: tuple[WaitRule, ...] = (
    *C10D,
    *MODELS,
    *TORCH,
    *FRAMEWORKS,
    *WAITING,
    *IO,
    *NATIVE,
    *MPI,
    *SYSTEM,
)
