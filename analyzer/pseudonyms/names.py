"""Find the names of hosts and users in a set of texts, to recognise them wherever they stand."""

import re
from collections.abc import Iterable, Iterator

from whyhang.analyzer.job.slurm_hosts import expand
from whyhang.analyzer.pseudonyms.coin import ENGLISH, PUBLIC_DOMAINS, PUBLIC_WORDS, is_pseudonym

_HOST = r"[A-Za-z0-9](?:[\w-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9][\w-]*)*"
_VARIABLES = "HOSTNAME|SLURMD_NODENAME|MASTER_ADDR|NODE_NAME|RAY_HEAD_IP|PET_MASTER_ADDR|HOST"
_ENDS = "internal|local|lan|corp|intra|com|net|org|edu|gov|cloud|de|fr|uk|ch|cn|jp"
_HOSTS = tuple(
    re.compile(text.replace("<>", f"(?P<host>{_HOST})"), flags)
    for text, flags in (
        (r'"(?:host|hostname|node|nodename)"\s*:\s*"<>"', 0),
        (rf"\b(?:{_VARIABLES})[\"']?\s*[=:]\s*[\"']?<>", 0),
        (r"^(?:\[[^\]]*\]:?\s*)?<>:\d+:\d+ (?:\[\d+\] )?NCCL ", re.MULTILINE),
        (r"\[<>\]:\d{2,5}\b", 0),
        (r"\[<>:\d+[\],|]", 0),
        (r"\b(?:host|hostname|node|nodename)\s*[=:]\s*['\"]?<>", re.IGNORECASE),
        (r"\b(?:on|of|from|at) (?:host|node) (?=[\w.-]*[\d.-])<>", re.IGNORECASE),
        (r"[\w.+-]@<>\b", 0),
        (r"://(?:[^\s/@\"']*@)?<>", 0),
        (r"\b(?P<host>ip-\d+-\d+-\d+-\d+[\w.-]*)", 0),
        (rf"(?<![\w.])(?P<host>[A-Za-z][\w-]*(?:\.[\w-]+)*\.(?:{_ENDS}))\b(?![\w.]|\s?\()", 0),
        (r"\b(?:srun|slurmstepd): error: <>:", 0),
        (r"\berror: \*\*\* .* ON <> ", 0),
    )
)
# How whyhang itself speaks of hosts: of some only a sentence tells.
_HOSTS_IN_SENTENCES = tuple(
    re.compile(text.replace("<>", f"(?P<host>{_HOST})"))
    for text in (
        r"\b(?:pid|[Pp]rocess|[Rr]anks?|[Tt]asks?) [\d,-]+ (?:on|of) <>",
        r"\b(?:tasks|running|badly|anything|ports?|driver|GPUs?|GPU \d+) (?:on|of) <>",
        r"\bon (?=[\w.-]*\d)<>",
        r"; look at <> first",
        r"\bon <>, if it can be reached",
    )
)
_LISTS = re.compile(
    r"(?:NODELIST|NodeList|nodelist)[\"']?\s*[=:]\s*[\"']?(?P<list>[A-Za-z][\w\[\],.-]*)"
)
_USERS = tuple(
    re.compile(text)
    for text in (
        r"/(?:home|Users)/(?P<user>[A-Za-z][\w.-]{1,31})(?![\w.-])",
        r"\b(?:USER|LOGNAME|USERNAME|SLURM_JOB_USER)[\"']?\s*[=:]\s*[\"']?(?P<user>[A-Za-z][\w.-]{1,31})",
        r"\bUserId=(?P<user>[A-Za-z][\w.-]{1,31})\(",
        r"(?<![\w.+-])(?P<user>[A-Za-z][\w.+-]{1,31})@[A-Za-z]",
    )
)
_BLANK = re.compile(
    r"(?:\bFile |\"(?:filename|short_filename|file|path|cwd|source)\"\s*:\s*)"
    r"\"(?P<path>[^\"\\\n]{0,400} [^\"\\\n]{0,400})\""
)
_FORM = re.compile(_HOST)
_NOT_A_NAME = re.compile(
    r"[\d.]+|\w|[A-Z_]+|\d{4}-\d\d-\d\d.*"
    r"|.*\.(?:py|log|json|txt|so|sh|out|err|yaml|c|cc|cpp|cu|h|hpp)"
)
_RANKS = re.compile(
    r"(?:rank|local_rank|r|dp|tp|pp|default|cuda|gpu|pid|tid|worker)[-_ ]?\d*", re.IGNORECASE
)
_PUBLIC_SITE = re.compile("|".join(rf"(?:^|\.){re.escape(site)}$" for site in PUBLIC_DOMAINS))


def hosts_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts call a host."""
    for text in texts:
        for pattern in _HOSTS:
            yield from (m["host"].rstrip(".") for m in pattern.finditer(text) if is_host(m["host"]))
        for match in _LISTS.finditer(text):
            for name in expand(match["list"]):
                if is_host(name) and _FORM.fullmatch(name):
                    yield name


def hosts_in_sentences(texts: Iterable[str]) -> Iterator[str]:
    """Yield what sentences of a report, not quotes of evidence, tell of as a host."""
    for text in texts:
        for pattern in _HOSTS_IN_SENTENCES:
            for match in pattern.finditer(text):
                name = match["host"].rstrip(".")
                if is_host(name):
                    yield name


def users_in(texts: Iterable[str]) -> Iterator[str]:
    """Yield what texts call a user."""
    for text in texts:
        for pattern in _USERS:
            for match in pattern.finditer(text):
                if match["user"].lower() not in PUBLIC_WORDS and not is_pseudonym(match["user"]):
                    yield match["user"]


def paths_with_blanks(texts: Iterable[str]) -> Iterator[str]:
    """Yield the paths that tracebacks and JSON name between quotes, where a blank is in them."""
    for text in texts:
        yield from (match["path"] for match in _BLANK.finditer(text))


def is_host(name: str) -> bool:
    """Return whether a word can be the name of one host, and not one of everybody's."""
    return (
        len(name) > 1
        and name.lower() not in PUBLIC_WORDS
        and name.lower() not in ENGLISH
        and not _PUBLIC_SITE.search(name)
        and not is_pseudonym(name.partition(".")[0])
        and not _NOT_A_NAME.fullmatch(name)
        and not _RANKS.fullmatch(name)
    )
