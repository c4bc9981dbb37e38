"""The TOML parser: of the standard library, or for Python 3.10 the package it came from."""

import sys

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

__all__ = ["tomllib"]
