"""Logs: from gigabytes of text to the facts of a few lines.

The way, from top to bottom: ``reader.py`` takes a file and ``scan.py`` leads it through:
``engine/`` finds where in its bytes patterns may match, ``text/`` takes the lines found there
apart, ``lines/`` reads facts out of them. What a file tells as a whole say ``introductions.py``
(who speaks), ``compared.py`` (what ranks print), ``ending.py`` (how it ends) and
``state_tables.py`` (what it lists of ranks).
"""
