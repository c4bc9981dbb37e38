"""Stable pseudonyms for what names a person, a machine or a project: ``--redact``.

``redact`` blanks secrets and is always at work. This goes further, if asked to: hosts, users,
addresses and the words of paths become pseudonyms, the same everywhere in a report and, since they
are keyed by a key of the user's own, in all reports of one user. Who does not have the key cannot
find out by trying which name a pseudonym stands for. Ranks, pids, collectives, functions, line
numbers, times and the files of well-known packages stay, so that what is left still tells why a
job hangs. What cannot be known for a name stays too: words of a project in function names, in a
program's own messages and in source lines.
"""

from whyhang.analyzer.pseudonyms.running_text import Pseudonyms as Pseudonyms
