"""``whyhang schema``."""

from __future__ import annotations

import argparse
import sys


class PrintSchema:
    """Print the JSON Schema of what --format json prints."""

    name = "schema"

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Declare nothing."""

    def run(self, options: argparse.Namespace) -> int:
        """Print the schema."""
        del options
        import json  # noqa: PLC0415 - the other commands start without it

        from whyhang.analyzer.report import schema  # noqa: PLC0415 - not for `--help`

        sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
        return 0
