"""Where the text of a log line tells its speaker's rank: what stands in front of it tells more.

The words of c10d and the headers of programs' own loggers, and the words of a program itself,
which count where the whole file shows that they do (``voice.py``).
"""

import re
from collections.abc import Mapping

from whyhang.analyzer.facts import NOBODY, Record, Trust, Who
from whyhang.collectors import limits, tables
from whyhang.collectors.logs.text.logger_header import reduce


class _Forms(Record):
    c10d_rank: re.Pattern[str]
    default_group_rank: re.Pattern[str]
    rank_in_header: limits.Pattern[str]
    rank_in_brackets: limits.Pattern[str]
    monitor: re.Pattern[str]
    raised_by: limits.Pattern[str]
    own_words: re.Pattern[str]
    index_label: re.Pattern[str]
    named_index: re.Pattern[str]
    worded_index: re.Pattern[str]
    name: re.Pattern[str]
    named_rank: tuple[re.Pattern[str], ...]
    mentioned_index: re.Pattern[str]
    own_label: re.Pattern[str]


FORMS = tables.patterns(__package__, "own_rank.toml", _Forms)


def behind_own_label(text: str, who: Who, names: Mapping[str, int]) -> str:
    """Return what a rank says behind its own label, as the other ranks say it: "[rank 3] saving".

    The text as it stands where no label of this rank begins it, or nothing but numbers follows.
    """
    if (name := FORMS.name.match(text)) is not None and name["name"] in names:
        return text[name.end() :]
    label = FORMS.own_label.match(text)
    if label is None or int(label["rank"]) not in {who.rank, who.local_rank}:
        return text
    message = text[label.end() :]
    return message if any(letter.isalpha() for letter in message) else text


def last_state(text: str) -> str:
    """Return what was written last in a line that is drawn over and over, as a progress bar is."""
    return text.rstrip().rpartition("\r")[2]


def rank_in_own_words(text: str) -> int | None:
    """Return the rank that a message of a program begins with."""
    match = FORMS.own_words.match(text)
    if match is None:
        return None
    return int(match["rank"] or match["rank2"] or match["rank3"] or match["rank4"])


def rank_in_statement(text: str) -> tuple[int, str, str]:
    """Return the first rank or device that a line mentions; the templates up to it and without it.

    The templates are empty where it mentions none.
    """
    index = FORMS.mentioned_index.match(text)
    if index is None:
        return 0, "", ""
    without = text[: index.start("rank")] + text[index.end("rank") :]
    return int(index["rank"]), reduce(text[: index.start("rank")])[0], reduce(without)[0]


def rank_in_content(text: str) -> Who:
    """Read the rank out of a c10d line, where no prefix and no file name tells it."""
    if match := FORMS.default_group_rank.search(text):
        return Who(rank=int(match["rank"] or match["rank2"]), trust=Trust.INFERRED)
    if match := FORMS.c10d_rank.search(text):
        return Who(rank=int(match["rank"]), trust=Trust.INFERRED)
    if match := FORMS.monitor.search(text):
        return Who(rank=int(match["rank"] or match["rank2"]), trust=Trust.PREFIX)
    if header := FORMS.rank_in_header.match(text) or FORMS.rank_in_brackets.match(text):
        return Who(rank=int(header["rank"]), trust=Trust.PREFIX)
    if raised := FORMS.raised_by.match(text):
        return Who(rank=int(raised["rank"]), trust=Trust.INFERRED)
    return NOBODY
