"""Names of packages: which are training frameworks, which are libraries, what is in Python itself.

The names stand in ``packages.toml``; they are for ``usercode``.
"""

import sys
from importlib.resources import files

from whyhang.analyzer.toml import tomllib

_TABLE = tomllib.loads(files(__package__).joinpath("packages.toml").read_text(encoding="utf-8"))


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
