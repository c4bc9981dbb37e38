"""``python -m whyhang``: the same as the console script."""

from whyhang.analyzer.cli import main

raise SystemExit(main())
