r"""What failed, in the words of programs that nobody knows: a word of failure beside an object.

Every library says the same few things in words of its own: a queue pair could not be made, the
head node was not reached, a file handle went stale. Such a line becomes a ``LogLine`` that is named
for its object, with the line's words in the field ``what``. Signatures know the wordings of many
libraries better; what is left to this reader is for whom none of them speaks.

The objects are ordered: of a line that names several, the first tells what it is about.
"""

import re
from collections import Counter
from collections.abc import Iterator

from whyhang.analyzer.facts import Fact, LogLine, replace
from whyhang.analyzer.facts.logs import FAILED
from whyhang.collectors.logs.engine.matching import Match
from whyhang.collectors.logs.lines.line_reader import FoundLine, LineReader, LogFile, wants

MAX_LINES = 100  # of one file and object
MAX_WORDS = 160

_FAILS = (
    r"fail|unable|cannot|can't|can not|could ?n[o']t|error|timed? ?out|refused|denied|rejected"
    r"|unreachable|unavailable|unresponsive|invalid|lost|exceeded|exhausted|non-zero|NULL value"
    r"|not (?:found|available|reachable|responding|permitted|connected|implemented|active)"
    r"|not loaded"
    r"|no (?:such|suitable|usable|space|locks|data available)|broken|aborted|disconnect"
)
_TRIES = rf"{_FAILS}|waiting|retry(?:ing)?|trying|not reachable|deadline.?exceeded"
_FULL = (
    r"no space|ENOSPC|short of space|cannot allocate|out of memory|ENOMEM|too small|insufficient"
    r"|not enough|exhausted|could not be allocated|StoreFull"
    r"|(?:un|not )able to (?:allocate|mmap|initiali[sz]e|resize|extend)"
    r"|has only \d"
)
_SILENT = (
    r"(?:un|not )reachable|unavailable|(?:not|no|never) (?:respon|answer)|refused|is (?:down|gone)"
    r"|deadline.?exceeded"
)
_COORDINATOR = (
    r"coordinator|coordination ?(?:service|leader)|(?:mesh|client) (?:master|service)|\bmaster\b"
    r"|head[ _-]node|\bleader\b|\bscheduler\b|\btracker\b|rendezvous|\bGCS\b|\bray cluster"
    r"|\bredis\b|\betcd\b|(?:bootstrap|metadata|name|param(?:eter)?|registry|store) ?server"
)
_REACH = r"connect|contact|reach|register|join|retrieve|fetch|meet|resolv|respon[ds]|get"
_MEMBERS = (
    r"(?:workers?|ranks?|peers?|clients?|nodes?|process(?:es)?|replicas?|hosts?|tasks?|agents?"
    r"|engines?|participants?|members?|pods?)"
)
_COME = (
    r"(?:join|register|connect|start|come up|ready|arrive|report|check(?:ed)? in|running|reached"
    r"|respond)"
)


_TO = r"(?:to |with |at )?(?:(?:\w+ ){0,3}?(?:address|endpoint):? )?(?:\w+://)?"
"""What stands between a word of connecting and an address."""

_WATCHER = r"handl|monitor|watch|listen|poll|check|support"
"""What is there in case that something comes."""


def _near(one: str, other: str, gap: int = 80) -> str:
    """Return a pattern for two words in either order, with not much between them."""
    return rf"(?i)(?:{one})[^\n]{{0,{gap}}}?(?:{other})|(?:{other})[^\n]{{0,{gap}}}?(?:{one})"


OBJECTS: dict[str, str] = {
    "rdma": _near(
        _FAILS,
        r"\bibv_\w+|mlx[45]dv_\w+|\bmlx[45]_\w+|\befa_\w+|\brdma\w*|\binfiniband|\bHCAs?\b|\bib_md\b"
        r"|\bqueue[ -]pairs?|\bQPs?\b|\bib(?:gda|rc|devx|verbs)\b|\bmemory region"
        r"|\bcompletion queue|\bregister(?:ing)? (?:MR|memory|user buffer|address)"
        r"|\bcreate (?:ah|cq|mr|qp|srq|DCT)\b"
        r"|\bhfi1?_\w+|_hfi_\w+|\bpsm[23]?_\w+|\brcvhdr\w*|\bcxi\w*|\bomni-?path"
        r"|\bnv_peer_?mem|nvidia[-_]peermem|\bdma-?buf\b|\befa\b|\b(?:transport )?retry count",
    ),
    "links": _near(
        rf"{_FAILS}|not (?:yet )?initialized|not supported|training timeout|\bdown\b",
        r"\bnvlinks?\b|\bnvswitch|fabric ?manager|\bimex\b|\bxgmi|\bxe ?link|multicast|port issue"
        r"|system\b|\bNVLS\b",
    ).replace("|system\\b", "|\\bsystem (?=not yet initialized)"),
    "peer access": _near(
        _FAILS,
        r"\bcustom_?all_?reduce\.cu|peer access|peer mapping|\b(?:cuda|hip|ze)_?Ipc\w*"
        r"|\bIPC (?:mem )?handle|\biommu\b|AMD-Vi"
        r"|IO_PAGE_FAULT",
    ),
    "lost gpu": r"(?i)has fallen off the bus|fell off the bus|device lost from bus",
    "gpu": (
        r"(?i)\bHW Exception by GPU|\bGPU (?:hang|reset)\b|Memory access fault by GPU"
        r"|\bdevice (?:is )?lost\b|GPU is lost|uncorrectable ECC"
    ),
    "device memory": (
        r"(?i)\b(?:XPU|NPU|HIP|CUDA|GPU|HPU|MPS|MLU|MUSA) out of memory"
        r"|RESOURCE_EXHAUSTED: (?:XLA:TPU compile permanent error\. )?(?:Out of memory|Ran out of)"
    ),
    "shared memory": _near(_FULL, r"\bshm\w*|shared[ _-]memory|object ?store|nccl-shm"),
    "host memory": (
        r"(?i)\bfork: (?:retry: )?cannot allocate memory|std::bad_alloc|memory limit exceeded"
        r"|exceeded (?:its |the |job )?memory limit|not enough (?:host |system )?memory"
        r"|unable to allocate [\d.]+ [KMGT]iB for an array|memory cgroup out of memory"
    ),
    "port": (
        r"(?i)address (?:is )?already in use|EADDRINUSE|address in use"
        r"|only one usage of each socket"
        r"|\bport:? \d+ (?:is )?(?:already )?(?:in use|occupied|taken|not available"
        r"|unavailable)"
        r"|\bfailed to add port to server|\bno address added out of total"
    ),
    "name": (
        r"(?i)name or service not known|temporary failure in name resolution|UnknownHostException"
        r"|\bno such host\b|could ?n[o']t resolve|(?:un|not )able to resolve"
        r"|failed to resolve (?:host|name|addr|DNS|'|\S+\.)"
        r"|no server name supplied|DNS resolution failed"
        r"|nodename nor servname|name does not resolve|cannot resolve"
        r"|unknown host\b|getaddrinfo(?: failed| error|\(\w)"
    ),
    "lock": (
        r"(?i)(?:timed? ?out|unable|failed|could not|cannot|been waiting|blocking waiting)"
        r"[^\n]{0,60}?(?:file ?lock|lock ?file|\block on\b|\S*[/.]lock\b)"
        r"|(?:file ?lock|lock ?file|\S+[/.]lock\b)[^\n]{0,60}?(?:could not|held by|timed? ?out)"
        r"|another process (?:is|must be) (?:currently )?(?:compiling|building|downloading|writing)"
        r"|database is locked"
    ),
    "storage": (
        r"(?i)stale (?:NFS )?file handle|\bESTALE\b|\bEROFS\b|\bEDQUOT\b|read-only file system"
        r"|remote I/O error|transport endpoint is not connected|cannot send after transport"
        r"|no locks available|disk quota exceeded|structure needs cleaning|\bLustreError: "
        r"|\bflock: |errno (?:5|16)\]|StorageFull|no space left on device|FSTimeoutError"
        r"|\b(?:read|writ|open|file|stat|dir|mmap)\w*[^\n]{0,60}?: input/output error"
        r"|/\S+[:;] input/output error"
    ),
    "call": (
        rf"(?i)\b{_MEMBERS}(?: \d[\d, -]*)? (?:did|do|does|have|has) ?n[o']t (?:respond|arrive"
        rf"|reach|enter|complete|join|reply)[^\n]{{0,20}}(?:within|after|in time|\d ?m?s\b)"
        rf"|\bbarrier\b[^\n]{{0,60}}?\bmissing:? (?:{_MEMBERS})?[ \[\d]"
    ),
    "placement": (
        r"(?i)could ?n[o']t find a node type|no available node types?|NO_RESOURCES|[Ii]nfeasible"
        r"|\b(?:cannot|can't|could ?n[o']t|unable to|failed to|insufficient \w+ to)"
        r" (?:be )?(?:schedul|plac|satisf|fulfill|alloc)\w*[^\n]{0,40}?"
        r"\b(?:pods?|tasks?|actors?|workers?|gang|placement|resources?|requests?|demands?|nodes?)\b"
        r"|\binsufficient (?:nvidia\.com/gpu|gpus?|resources)\b(?! mem)"
        r"|\bnot enough (?:gpus|resources|slots)"
        r"|(?:does|did)(?: not|n't) allocate (?:any |enough )?(?:\w+ )?(?:gpus?|nodes?|slots?)\b"
        r"|\bnodes? ha(?:s|ve) no (?:\w+ )?gpus?\b"
    ),
    "members": (
        rf"(?i)(?:timed? ?out|gave up|still|timeout)[^\n]{{0,30}}?\bwaiting (?:for|on) "
        rf"[^\n]{{0,40}}?\b{_MEMBERS}(?:\(s\))?\b[^\n]{{0,30}}?\b{_COME}"
        rf"|\b(?P<came>\d+) ?(?:of|/|out of) ?(?P<all>\d+) {_MEMBERS}"
        rf" (?:have |has |are |were )?{_COME}"
        rf"|\bonly \d+ {_MEMBERS} (?:have |has )?{_COME}"
    ),
    "coordinator": (
        _near(_TRIES, rf"(?:{_REACH})\w*[^\n]{{0,40}}?(?:{_COORDINATOR})")
        + rf"|(?:{_COORDINATOR})[^\n]{{0,60}}?(?:{_REACH})\w*[^\n]{{0,60}}?(?:{_TRIES})"
        rf"|(?:{_COORDINATOR})[^\n]{{0,40}}?(?:{_SILENT})|^RPC: /\S*CoordinationService/"
    ),
    "service": (
        r"(?i)\b(?:status(?:[ _]?code)?|response code|(?:HTTP|server) error)\W{1,3}(?:429|5\d\d)\b"
        r"|\b(?:429|50[0234]) (?:GET|POST|PUT|Too Many|Bad Gateway|Service|Server|Gateway)"
        r"|\b(?:Connect|Read)Timeout(?:Error)?\b|Max retries exceeded|ProxyError|ServerDisconnected"
        r"|EndpointConnectionError|\(SlowDown\)|ServiceUnavailable|RemoteDisconnected"
        r"|\b(?:s3|gs|gcs|az|abfss?|hdfs|oss)://[^\n]{0,120}?(?:broken pipe|fail|exit [1-9]|error)"
        r"|(?:download|read|open|fetch|cop[yi])\w* fail\w*[^\n]{0,40}(?:s3|gs|gcs|az|hdfs|oss)://"
        r"|too long to (?:download|fetch|stream)\b"
        r"|ServiceResponseError|\bcurl: \((?:5|6|7|28|35|52|56)\)|unexpected code in http response"
    ),
    "transport": _near(
        _FAILS + "|output empty list",
        r"\bfi_[a-z]\w+|\blibfabric|\bOFI\b|\bproviders?\b|\bUCX\b|\buc[pst]_\w+|\bNIXL\w*"
        r"|\bmooncake\b|(?:KV|batch data|cache) ?transfer|\bnetwork (?:plugin|device|interface)"
        r"|waiting for (?:an? )?(?:incoming connection|RX|handshake)\b"
        r"|\b(?:to|any|for) interface \w+\d|\bsocket interface|no route to host|network is unreach",
    ),
    "peer": (
        r"(?i)(?:connect\w*|handshake|link|send\w*|receiv\w*) (?:to|with|from) rank "
        r"(?P<ranks>\d{1,6})\b[^\n]{0,30}?(?:fail|timed? ?out|refused|reset)"
        r"|(?:fail\w*|unable|could not|cannot|timed? ?out)(?: to| in| while)?"
        r" (?:connect\w*|reach\w*)(?: to| with)? rank (?P<rank>\d{1,6})\b"
    ),
    "address": (
        rf"(?i)connect\w*(?: \w+)? {_TO}[\w.-]+:\d+[^\n]{{0,60}}?"
        rf"(?:{_FAILS}|after \d)"
        r"|\b[\w.-]+:\d{4,5}\W[^\n]{0,40}?(?:connect(?:ion)? (?:fail|refuse|time)|deadline ex)"
        rf"|(?:{_FAILS})[^\n]{{0,40}}? connect\w*(?: \w+)? (?=to |with |at ){_TO}[\w.-]+:\d+"
    ),
    "process": (
        rf"(?i)\b{_MEMBERS} (?:proc\w* )?\S{{1,40}} (?:died|exited|terminated|crashed)"
        r" unexpectedly|"
        rf"\b{_MEMBERS}\b[^\n]{{0,160}}?\b(?:marked|declared|considered|reported) (?:as )?"
        r"(?:dead|lost|failed|down)\b|"
        rf"\b{_MEMBERS}[ -][\w.-]{{1,40}} (?:was |is |has been |marked )*"
        r"(?:lost|dead|evicted|preempted|unhealthy)\b|missed too many heartbeats|heartbeat timeout"
        r"|\b(?:spot|preemption) (?:instance )?(?:interruption|notice|termination)\b"
        rf"(?! (?:{_WATCHER}))"
    ),
}
"""The objects, and by which words a line tells that something failed about them."""

_OBJECTS = {name: re.compile(pattern) for name, pattern in OBJECTS.items()}
_NOT_THESE = re.compile(
    r"\bNCCL (?:INFO|WARN|TRACE)\b|\[c10d\] |^\s*File \"|\bHTTP/1\.[01]\" \d|(?i:nothing to do)"
    r"|(?:^|[\s,(])I(?:'m|'ve|'d)? [a-z]"
    r"|^\s*[\"']?[a-z][\w-]*[\"']?\s*[:=]\s*[\"']?[a-z0-9_./-]*[\"']?,?\s*$"
    r"|^\w+(?:\{[^}]*\})? [\d.e+-]+$"
    r"|^\s*(?:(?:raise|return|except|assert|if|elif|def)\b|print\(|log\w*\.\w+\()[^\n]*[:)\"']\s*$"
    r"|^\s+--?[a-z][\w-]*\s{2,}|\bgrep |^\W*[-*] `[^`]+`:"
    r"|\b(?i:no errors?\b|(?:errors?|failed|lost|timeouts?)\s*[=:]\s*0\b)"
)
"""Lines with a reader of their own, source, requests that a server notes, the first person,
settings of one word, counters, code, and the help of options."""
_HEADER = re.compile(r"^[^a-zA-Z]*(?:[\w./-]+\.(?:cc?|cpp|cu|h|py|rs|go):\d+[\]:]?\s*)?")


def object_of(text: str) -> tuple[str, dict[str, str]] | None:
    """Return about which object a line says that something failed, and what it names."""
    if _NOT_THESE.search(text):
        return None
    for name, pattern in _OBJECTS.items():
        match = pattern.search(text)
        if match is not None:
            named = {key: word for key, word in match.groupdict().items() if word}
            all_came = "came" in named and named["came"] == named["all"]
            return None if all_came else (name, named)
    return None


class WhatFailedReader(LineReader):
    """Collects lines that say what failed."""

    def __init__(self, file: LogFile) -> None:
        super().__init__(file)
        self._lines: dict[int, LogLine] = {}
        self._seen: Counter[str] = Counter()

    @wants(*OBJECTS.values())
    def on_failure(self, line: FoundLine, match: Match) -> None:
        """Note the line by its object, once."""
        failed = object_of(line.text)
        if failed is None or self._seen[failed[0]] >= MAX_LINES or line.number in self._lines:
            return
        name, named = failed
        self._seen[name] += 1
        words = " ".join(_HEADER.sub("", line.text).split())
        self._lines[line.number] = LogLine(
            who=line.who,
            text=line.text[: 4 * MAX_WORDS],
            source=line.source,
            matched=(FAILED + name,),
            fields={**named, "what": words[:MAX_WORDS]},
            time=line.time,
            offset=line.offset,
        )

    def facts(self) -> Iterator[Fact]:
        """Yield the lines, in the order of the file."""
        for line in self._lines.values():
            yield replace(line, who=self._file.speaker(line))
