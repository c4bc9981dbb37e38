"""Print the JSON Schema of what --format json prints."""

import argparse
import json
import sys

from whyhang.analyzer.report import schema


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare nothing."""


def run(options: argparse.Namespace) -> int:
    """Print the schema."""
    del options
    sys.stdout.write(json.dumps(schema(), indent=2) + "\n")
    return 0
