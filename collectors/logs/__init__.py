"""Logs: from gigabytes of text to the facts of a few lines.

The way, from top to bottom: ``scan.py`` takes a file, ``engine/`` finds where in its bytes patterns
may match, ``text/`` takes the lines found there apart, ``lines/`` reads facts out of them;
``file.py`` leads a file through all of it.
"""
