"""What a host sends of long logs: the lines that facts come from, with all numbers as they were."""

from __future__ import annotations

import random

from whyhang.analyzer.cards.load import known
from whyhang.analyzer.facts import Fact, LogLine, replace
from whyhang.collectors import READERS
from whyhang.collectors.files.bundle import Bundle, Entry, Manifest, documents_of
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.hosts.merge import HostJobNumber, Parts
from whyhang.collectors.hosts.reduce import MOST_OF_A_LOG, cut, packed, reduced
from whyhang.collectors.logs.reader import LogReader

PATTERNS = {pattern for each in known().signatures for pattern in each.searched}
READ = (*READERS, LogReader(PATTERNS))

STEP = "2026-03-01 10:00:{:02d} INFO step {} loss 2.{} lr 3e-4 tokens 524288 throughput 1234.5\n"
STORY = """[rank3]:[E301 10:12:13.100] [PG ID 0 PG GUID 0(default_pg) Rank 3] Watchdog caught \
collective operation timeout: WorkNCCL(SeqNum=133, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, \
Timeout(ms)=600000) ran for 600013 milliseconds before timing out.
[rank3]: Traceback (most recent call last):
[rank3]:   File "/home/u/train.py", line 88, in main
[rank3]:     loss.backward()
[rank3]:   File "/opt/torch/_tensor.py", line 525, in backward
[rank3]:     torch.autograd.backward(
[rank3]: torch.distributed.DistBackendError: NCCL communicator was aborted on rank 3.
"""


def log() -> bytes:
    """Return a log of a megabyte in which something happens in the middle."""
    steps = [STEP.format(n % 60, n, n) for n in range(8_000)]
    return "".join([*steps[:4_000], STORY, *steps[4_000:]]).encode()


def bundle(data: bytes) -> Bundle:
    entry = Entry(path="n1/logs/train.log", kind="log", host="n1")
    return Bundle(manifest=Manifest(host="n1", files=(entry,)), files={entry.path: data})


def facts(whole: Bundle) -> list[Fact]:
    """Read it; where in bytes a line begins is another matter."""
    read = read_documents(documents_of(whole), readers=READ)
    return [replace(fact, offset=0) if isinstance(fact, LogLine) else fact for fact in read]


def test_a_long_log_is_sent_by_what_matters_and_gives_the_same_facts() -> None:
    whole = bundle(log())
    small = reduced(whole, READ)
    assert facts(small) == facts(whole)
    assert any("Watchdog" in str(fact) for fact in facts(small))
    assert len(packed(small, small.files)) < 10_000 < len(packed(whole, whole.files))


def test_all_lines_keep_their_numbers() -> None:
    data = b"".join(b"line %d of a log\n" % n for n in range(20_000))
    parts = cut(data, [9_000]).splitlines()
    assert len(parts) == 20_000
    assert parts[8_999] == b"line 8999 of a log"
    assert parts[0] == b"line 0 of a log"
    assert parts[-1] == b"line 19999 of a log"
    assert parts[5_000] == b""


def test_a_log_full_of_findings_stays_within_its_share_and_keeps_its_end() -> None:
    data = b"".join(b"%07d " % n + b"x" * 92 + b"\n" for n in range(30_000))
    kept = cut(data, range(1, 30_001))
    assert len(kept) < MOST_OF_A_LOG + 30_000
    assert kept.endswith(data[-5_000:])


def test_a_host_that_has_too_much_says_what_it_left_out() -> None:
    noise = random.Random(1).randbytes(6 << 20)
    entry = Entry(path="n1/dump", kind="fr", host="n1")
    small = Entry(path="n1/small", kind="fr", host="n1")
    manifest = Manifest(host="n1", files=(entry, small))
    blob = packed(
        Bundle(manifest=manifest, files={"n1/dump": noise, "n1/small": b"s"}),
        ["n1/dump", "n1/small"],
    )
    assert len(blob) < 5 << 20
    parts = Parts()
    assert parts.add(HostJobNumber("n1", 0), blob) == ""
    whole = parts.bundle([], ["n1"])
    assert whole.files["n1/small"] == b"s"
    assert b"5 MiB that a host sends" in whole.files["n1/left_out.gaps.json"]
