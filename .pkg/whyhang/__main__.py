"""``python -m whyhang`` and the console script."""


def run() -> int:
    """Run the command line; an interrupt while it is being loaded is no traceback either."""
    try:
        from whyhang.analyzer.cli import main  # noqa: PLC0415 - see above
    except KeyboardInterrupt:
        return 130
    return main()


if __name__ == "__main__":
    raise SystemExit(run())
