"""Who speaks in a log, as its first lines tell: one rank or many, with which labels and numbers."""

import itertools
import re
from collections.abc import Iterable, Sequence

from whyhang.analyzer.facts import NOBODY, Trust, Who, replace
from whyhang.collectors.logs.text.clock import year_of
from whyhang.collectors.logs.text.line import (
    AROUND,
    ENGINE_LABEL,
    Voice,
    clean,
    label_of_message,
    speaker_and_rest,
)
from whyhang.collectors.logs.text.logger_header import bare_name, header_end, reduce
from whyhang.collectors.logs.text.own_rank import (
    FORMS,
    last_state,
    rank_in_content,
    rank_in_own_words,
    rank_in_statement,
)
from whyhang.collectors.logs.text.pasted import NO_MARGIN, has_clock, margin_of
from whyhang.collectors.logs.text.prefix import is_by_host, is_numbered, split_prefix

_BY_MPI = re.compile(
    r"^[ \t]{0,8}(?:[\w@:~-]{0,60}[$>#%] ?)?(?:mpirun|mpiexec|orterun) -", re.MULTILINE
)
# What each process of Hugging Face's example scripts prints of itself; rank 0's are in all logs.
_OF_ONE = re.compile(r"\bProcess rank: (?P<rank>\d{1,6}), device: ")


def voice_of(head: bytes, who: Who, taken_at: float | None = None) -> Voice:
    """Return how to read a file's lines, as its first bytes show."""
    text = clean(head[: 16 << 10])
    raw = [last_state(line) for line in text.split("\n")[:200]]
    margin = NO_MARGIN if _is_journal(raw) or _is_of_container(raw) else margin_of(raw)
    lines = [AROUND.outer_prefix.sub("", margin.sub("", line, count=1), count=1) for line in raw]
    numbered = is_numbered(lines)
    year = year_of(text)
    if year is None and taken_at is not None:
        year = 1970 + int(taken_at / 31_556_952)
    if who.trust is Trust.INFERRED and _others_speak(lines, who):
        who = replace(who, rank=None, trust=Trust.NONE)
    logger = bare_name(lines)
    messages = [line[header_end(line, logger, timed=has_clock(margin)) :] for line in lines]
    own_words = _speak_of_themselves(messages, of_mpi=_BY_MPI.search(text) is not None)
    index = next((label for label in _INDICES if _count_ranks(messages, label)), None)
    size = _size(messages, index) if index is not None else None
    voice = Voice(
        who=who,
        numbered=numbered,
        by_host=not numbered and is_by_host(lines),
        ranks_by_number=numbered and not _numbers_count_nodes(lines),
        own_words=own_words,
        index=index,
        size=size,
        statements=frozenset() if own_words else _statements(messages),
        names=_names(messages),
        services=_services_are_ranks(raw),
        year=year,
        margin=margin,
        logger=logger,
    )
    if who.rank is not None:
        return voice
    own = {match["rank"] for match in _OF_ONE.finditer(text)}
    if len(own) == 1 and own != {"0"}:
        return replace(voice, who=replace(who, rank=int(own.pop()), trust=Trust.INFERRED))
    labels = dict.fromkeys(
        _label(line, voice) for line in lines if not line.startswith(ENGINE_LABEL)
    )
    return replace(voice, speakers=tuple(label for label in labels if label != NOBODY))


def _label(line: str, voice: Voice) -> Who:
    who, rest = speaker_and_rest(line, voice)
    if who is NOBODY and (mesh := AROUND.mesh_label.match(rest)):
        return Who(label=mesh["label"].strip())
    if who is NOBODY:
        return label_of_message(voice.message(rest))
    return who


def _others_speak(lines: Iterable[str], who: Who) -> bool:
    """Return whether ranks speak in a file of which none has the number in the file's name."""
    ranks = {content.rank for line in lines if (content := rank_in_content(line)).rank is not None}
    return bool(ranks) and who.rank not in ranks


def _speak_of_themselves(lines: Iterable[str], *, of_mpi: bool) -> bool:
    """Return whether several ranks print one and the same statement, which begins with the rank.

    What is only said of ranks, in prose, says something else of each; so do the processes of a
    small program behind the command that started them (``of_mpi``), as sender and receiver.
    """
    speakers: dict[str, set[int | None]] = {}
    for line in lines:
        if rank := FORMS.own_words.match(line):
            template, _ = reduce(line[rank.end() :].lstrip(" ,:;|"))
            speakers.setdefault(template, set()).add(rank_in_own_words(line))
    alike = any(len(ranks) > 1 for ranks in speakers.values())
    return alike or (of_mpi and len(set().union(*speakers.values())) > 1)


_OF_RUNTIME = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:?\d\d) std(?:out|err) [FP] ")
SEVERAL = 4  # ranks
_INDICES = (FORMS.index_label, FORMS.named_index, FORMS.worded_index)
_OF_RANKS = re.compile(
    r"(?i)(?<![a-z])(?:local[ _-]?)?rank[ _=:\]]{0,2}(?P<rank>\d+)|NCCL (?:INFO|WARN)|torchrun"
)


def _count_ranks(lines: Sequence[str], label: re.Pattern[str]) -> bool:
    """Return whether the numbers in labels count ranks: each speaks again and again, in turn.

    Those of steps and epochs rise; of several ranks it is enough that each speaks once, out of
    order, or twice where the label says of how many ("worker 3/8"): then few may be missing. In a
    log with ranks of another make they are not more; pods in which ranks speak are nodes.
    """
    spoken: list[int] = []
    speakers: dict[str, set[int]] = {}
    named: set[int] = set()
    names: set[str] = set()
    for line in lines:
        if (who := split_prefix(line)[0]).rank is not None:
            named.add(who.rank)
        elif index := label.match(line):
            if label is not FORMS.index_label:
                names.add(index["name"])
                if (own := _OF_RANKS.search(line)) and own["rank"] != index["rank"]:
                    return False
            spoken.append(int(index["rank"]))
            template, _ = reduce(line[index.end() :].lstrip(" :"))
            speakers.setdefault(template, set()).add(spoken[-1])
    everyone = set(spoken)
    in_turn = sum(after < before for before, after in itertools.pairwise(spoken))
    size = _size(lines, label) or 0
    return (
        len(everyone) > 1
        and len(names) < 2
        and (everyone == set(range(len(everyone))) or 2 * len(everyone) > size > max(everyone))
        and named <= everyone
        and in_turn > (size < max(SEVERAL, max(everyone) + 1))
        and in_turn >= len(spoken) // len(everyone) - 1
        and (len(spoken) >= 2 * len(everyone) or len(everyone) >= SEVERAL)
        and any(ranks == everyone for ranks in speakers.values())
    )


def _size(lines: Iterable[str], label: re.Pattern[str]) -> int | None:
    """Return of how many each label says that it is one; None where they do not agree."""
    labels = [index.groupdict() for line in lines if (index := label.match(line))]
    sizes = {index.get("of") for index in labels}
    (size,) = sizes if len(sizes) == 1 else (None,)
    return int(size) if size is not None else None


def _services_are_ranks(lines: Iterable[str]) -> bool:
    """Return whether docker compose's services count ranks, from 0: all of one name print alike."""
    speakers: dict[str, set[str]] = {}
    for line in lines:
        if (outer := AROUND.outer_prefix.match(line)) is not None and (service := outer["service"]):
            if (named := _OF_RANKS.search(line)) and named["rank"] != service.rpartition("-")[2]:
                return False
            speakers.setdefault(reduce(line[outer.end() :])[0], set()).add(service)
    everyone = set().union(*speakers.values())
    numbers = {service.rpartition("-")[2] for service in everyone}
    counted = numbers == {str(number) for number in range(len(everyone))}
    one_name = len({service.rpartition("-")[0] for service in everyone}) == 1
    alike = any(who == everyone for who in speakers.values())
    return len(everyone) > 1 and counted and one_name and alike


def _names(lines: Iterable[str]) -> dict[str, int]:
    """Return the names that lines give to ranks, where each is that of one rank."""
    pairs = {
        (named["name"], int(named["rank"]))
        for line in lines
        for form in FORMS.named_rank
        if (named := form.search(line)) is not None
    }
    names = dict(pairs)
    alone = len(pairs) == len(names) == len(set(names.values()))
    return names if alone and len(names) > 1 else {}


def _statements(lines: Iterable[str]) -> frozenset[str]:
    """Return the templates of lines that each rank prints again and again with its number in them.

    In the last round some may be missing: it is for those that a log is read. What begins alike is
    said by the same ranks. One process that prints a line for each rank keeps to their order; ranks
    that run beside each other do not. Of lines with labels, those tell who speaks.
    """
    speakers: dict[str, list[int]] = {}
    heads: dict[str, str] = {}
    for line in lines:
        if split_prefix(line)[0] is not NOBODY:
            continue
        rank, head, template = rank_in_statement(line)
        if template:
            speakers.setdefault(template, []).append(rank)
            heads[template] = head
    sure = {heads[template] for template, ranks in speakers.items() if _are_speakers(ranks)}
    return frozenset(
        template
        for template, ranks in speakers.items()
        if heads[template] in sure and len(set(ranks)) > 1
    )


def _are_speakers(ranks: Sequence[int]) -> bool:
    """Return whether the numbers in lines that are alike are those of ranks that print them."""
    size = len(set(ranks))
    return (
        set(ranks) == set(range(size))
        and len(ranks) > 1.5 * size > 1.5
        and any(after != (rank + 1) % size for rank, after in itertools.pairwise(ranks))
    )


def _is_journal(lines: list[str]) -> bool:
    """Return whether it is a journal: behind its times stands a host's name to be kept."""
    written = [line for line in lines if line.strip()]
    matches = [AROUND.outer_prefix.match(line) for line in written]
    hosts = sum(1 for match in matches if match is not None and (match["host"] or match["host2"]))
    return bool(written) and 2 * hosts > len(written)


def _is_of_container(lines: list[str]) -> bool:
    """Return whether a container runtime wrote it: behind its times stands the stream."""
    written = [line for line in lines if line.strip()]
    return 2 * sum(1 for line in written if _OF_RUNTIME.match(line)) > len(written) > 0


def _numbers_count_nodes(lines: list[str]) -> bool:
    """Return whether "3: " counts nodes, as that of ``srun -l`` over torchrun does, not ranks.

    One number but 0 in front of all lines counts something else: tests, as ctest does.
    """
    speakers: dict[int, set[str]] = {}
    numbers: set[int | None] = set()
    for line in lines:
        if AROUND.torchrun_words.search(line):
            return True
        outer, rest = split_prefix(line, numbered=True)
        numbers |= {outer.rank if line.lstrip()[:1].isdigit() else 0} - {None}
        if outer.rank is not None and (own := FORMS.c10d_rank.search(rest)):
            speakers.setdefault(outer.rank, set()).add(own["rank"])
            if len(speakers[outer.rank]) > 1:  # several ranks speak under one number
                return True
        bare = line.lstrip().partition(":")[0].strip("[]")
        if bare.isdecimal() and outer.rank is not None and int(bare) != outer.rank:
            return True
        if outer.local_rank is not None and rest:
            return True
    return len(numbers) == 1 and 0 not in numbers
