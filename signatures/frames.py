"""The table of frames: which frame means waiting for what.

Knowledge about torch, the frameworks on it, Python and the libraries below, as data. What a
rule means is said in ``whyhang.analyzer.waits``; how sure it is, in its ``verified``. Adding a
frame is adding a ``WaitRule`` to one of the four tables, and a stack to ``tests/data/frames``.
"""

from __future__ import annotations

from whyhang.analyzer.waits import WaitRule
from whyhang.signatures._frames_frameworks import FRAMEWORKS
from whyhang.signatures._frames_native import NATIVE
from whyhang.signatures._frames_python import PYTHON
from whyhang.signatures._frames_torch import TORCH

TABLE: tuple[WaitRule, ...] = (*TORCH, *FRAMEWORKS, *PYTHON, *NATIVE)
