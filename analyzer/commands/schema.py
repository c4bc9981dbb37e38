"""``whyhang schema``."""

from __future__ import annotations

import argparse
import json
import sys


class PrintSchema:
    """Print the JSON Schema of ``--format json``."""

    name = "schema"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare nothing."""

    def run(self, options: argparse.Namespace) -> int:
        """Print the schema."""
        del options
        from whyhang.analyzer.report import schema  # noqa: PLC0415 - not for `--help`

        sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
        return 0
