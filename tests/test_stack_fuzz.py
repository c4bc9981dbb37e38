"""No text makes a stack reader raise, hang, or lose a dump that is whole."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stack_docs import document

from whyhang.analyzer.facts import Gap, StackDump
from whyhang.analyzer.reading import Reader
from whyhang.collectors import limits
from whyhang.collectors.files.folder import read_documents
from whyhang.collectors.prose import reader as prose
from whyhang.collectors.stacks import (
    faulthandler,
    gdb,
    pyspy_json,
    pyspy_text,
    pystack,
    reader,
    sections,
    traceback,
)

READERS: tuple[Reader, ...] = (
    pyspy_json.READER,
    pyspy_text.READER,
    faulthandler.READER,
    gdb.READER,
    pystack.READER,
    traceback.READER,
    prose.READER,
)

SAMPLES = {
    "py-spy": """\
Process 4711: python train.py
Python v3.11.7 (/opt/python3.11)

Thread 4711 (idle): "MainThread"
    c10d::Work::wait(std::chrono::duration<long>) (libtorch_cpu.so)
    all_reduce (torch/distributed/distributed_c10d.py:2806)
        Arguments:
            rank: 2
    <module> (train.py:29)
Parent Process 10: torchrun train.py
6 processes are in:
ranks 0-2, 4:
""",
    "faulthandler": """\
Thread 0x00007f38c96fe6c0 (most recent call first):
  File "/lib/threading.py", line 327 in wait

Current thread 0x00007f38f1a3bb80 (most recent call first):
  File "/job/train.py", line 29 in <module>
""",
    "gdb": """\
Thread 1 (Thread 0x7f38f1 (LWP 4711) "python3"):
#0  0x00007f38f1 in __GI___poll (fds=0x7f2b, nfds=1) at ../sysdeps/poll.c:29
#1  0x00007f38e0 in c10d::Work::wait(long) () from /lib/libtorch_cpu.so
Traceback (most recent call first):
  File "/job/train.py", line 29, in <module>
[Inferior 1 (process 4711) detached]
""",
    "pystack": """\
Traceback for thread 123 (python3) [Has the GIL] (most recent call last):
    (Python) File "/job/train.py", line 28, in <module>
    (C) File "???", line 0, in poll (/lib/libc.so.6)
""",
    "traceback": """\
Traceback (most recent call last):
  File "/job/train.py", line 10, in <module>
    main()
  File "/job/train.py", line 7, in main
KeyboardInterrupt
""",
    "summary": """\
DP0,1:  broadcast (torch/distributed/distributed_c10d.py:2841)
DP2:    prepare (worker.py:163)
node03
    broadcast
""",
}
JSON_SAMPLE = json.dumps(
    [
        {
            "pid": 7,
            "os_thread_id": 7,
            "thread_name": "MainThread",
            "frames": [{"name": "f", "filename": "/a.py", "line": 3}],
        }
    ]
)
LINES = sorted({line for text in SAMPLES.values() for line in text.splitlines()})
PREFIXES = ("", "", "[rank3]: ", "[default1]:", "0: ", "> ", "\x1b[32m", "[1,2]<stderr>:", "    ")


def read_all(content: str | bytes) -> list[StackDump]:
    """Read with every stack reader; no reader may fail."""
    listed = list(read_documents([document(content, "rank3.log")], readers=READERS))
    assert not [fact for fact in listed if isinstance(fact, Gap) and "reader failed" in str(fact)]
    return [fact for fact in listed if isinstance(fact, StackDump)]


@given(
    st.lists(
        st.one_of(
            st.tuples(st.sampled_from(PREFIXES), st.sampled_from(LINES)).map("".join),
            st.text(max_size=40),
        ),
        max_size=60,
    )
)
def test_shuffled_lines(lines: list[str]) -> None:
    """Lines of all tools, in any order and with any prefix, are survived."""
    read_all("\n".join(lines))


@given(data=st.data())
def test_damaged_dumps(data: st.DataObject) -> None:
    """Dumps cut anywhere, with bytes in them that are no text, are survived."""
    samples = [*SAMPLES.values(), JSON_SAMPLE]
    texts = data.draw(st.lists(st.sampled_from(samples), min_size=1, max_size=4))
    whole = "".join(texts).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=4)))
    junk = data.draw(st.binary(max_size=30))

    damaged = whole
    for cut in cuts:
        damaged = damaged[:cut] + junk + damaged[cut + len(junk) :]

    read_all(damaged)


@given(st.binary(max_size=3000))
def test_binary(data: bytes) -> None:
    """Bytes that are no text at all give no stack and no error."""
    assert read_all(data) == []


GARBAGE = st.lists(
    st.text(st.characters(codec="utf-8", exclude_characters='\n\r"(#'), max_size=60), max_size=8
)


@pytest.mark.parametrize("tool", sorted(SAMPLES.keys() - {"summary"}))
@given(before=GARBAGE, behind=GARBAGE)
def test_a_dump_with_garbage_around_it(tool: str, before: list[str], behind: list[str]) -> None:
    """A whole dump is found whatever lines stand before and behind it."""
    around = "\n".join(before) + "\n\n" + SAMPLES[tool] + "\n" + "\n".join(behind)

    assert tool in {dump.tool for dump in read_all(around)}


THREADS = range(1000, 12_000)
HOSTILE = {
    "heads in one line": "Thread 1 (idle): " * 60_000,
    "main threads": 'Thread 1 (idle): "MainThread"\n' * 20_000,
    "open parentheses": "Thread 1 (Thread 0x7f (LWP 1)):\n#0  f (" + "(" * 300_000,
    "places of one frame": "#0  f () " + "at a " * 100_000,
    "quotes": '  File "' * 100_000,
    "frames": '  File "/a.py", line 3, in f\n' * 50_000,
    "words of a head": "(most recent call first):" * 40_000,
    "words of pystack": "Traceback for thread 1 " * 40_000,
    "open lists": "[" * 500_000 + '"frames" "thread_id"',
    "open objects": '{"frames":' * 100_000 + '"thread_id"',
    "open lists in lines": '{"frames" "thread_id"\n' + "\n[[[1,2],[3" * 40_000,
    "a long name": "node" + "1" * 500_000 + "\n#0  x\n",
    "carriage returns": "\r" * 500_000 + "(idle)",
    "a line without carriage return": "a" * 500_000 + "\n\r\r(idle)",
    "a long function": "DP0: " + "a" * 200_000 + " (a.py:1)",
    "a long actor": "(" + "a" * 300_000 + " pid=1 (idle)",
    "a long line above a traceback": "a" * 500_000 + '\n  File "/a.py", line 3, in f\n' * 2,
    "long lines above tracebacks": ("Thread" + ":" * 16_000 + "\nx" * 3)
    + ("Thread" + "#" * 16_000 + 'b\n  File "/a.py", line 3, in f\n') * 40,
    "tabs before frames": ("\t" * 16_000 + '\n  File "/a.py", line 3, in f\n') * 40,
    "spaces in a summary": ("DP0" + " " * 390 + "x\n") * 600 + "DP0: f (a.py:1)\n",
    "headings": ("a1" + "._" * 90 + " a\n#0  0x1 in f ()\n") * 4000,
    "threads of faulthandler": "".join(
        f'Thread 0x{tid:016x} (most recent call first):\n  File "/a.py", line 3 in f\n'
        for tid in THREADS
    ),
    "threads of pystack": "".join(
        f"Traceback for thread {tid} (most recent call last):\n"
        '    (Python) File "/a.py", line 3, in f\n'
        for tid in THREADS
    ),
    "threads of gdb": "".join(
        f"Thread {tid} (Thread 0x7f (LWP {tid})):\n#0  0x1 in f () at a.c:1\n" for tid in THREADS
    ),
    "threads of tracebacks": "".join(
        f'Thread {tid}:\n  File "/a.py", line 3, in f\n' for tid in THREADS
    ),
    "launchers": "".join(
        f'Process {tid}: torchrun x\nThread {tid} (idle): "MainThread"\n    f (a.py:1)\n'
        for tid in THREADS
    ),
    "ranks without end": "ranks 0-99999:\nProcess 7: x\n" * 8000 + "Thread 1 (idle)\n",
    "ranks in many headings": 'ranks 0-9999:\nThread 1 (idle): "MainThread"\n    f (a.py:1)\n'
    * 1000,
    "ranks in many prefixes": "".join(
        f"[rank{rank}]: {line}"
        for rank in range(500)
        for line in ("ranks 0-9999:\n", 'Thread 1 (idle): "MainThread"\n', "    f (a.py:1)\n")
    ),
    "ranks in a summary": "ranks 0-9999: f (a.py:1)\n" * 8000,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_texts_take_no_time(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long lines and endless repetitions are read in time linear in their size, or left."""
    monkeypatch.setattr(limits, "SECONDS", 0.1)
    for module in (reader, sections):
        monkeypatch.setattr(module, "MAX_RANKS", 30_000)
    started = time.process_time()

    read_all(content)

    assert time.process_time() - started < 3


def test_what_was_read_before_the_time_is_over_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gap says where the reading ended."""
    monkeypatch.setattr(limits, "SECONDS", 0.3)
    monkeypatch.setattr(limits, "BYTES_PER_SECOND", 1 << 30)
    content = SAMPLES["py-spy"] + "ranks 0-99999:\nProcess 7: x\n" * 500

    facts = list(read_documents([document(content)], readers=READERS))

    assert {fact.who.pid for fact in facts if isinstance(fact, StackDump)} == {4711}
    (gap,) = [fact for fact in facts if isinstance(fact, Gap)]
    assert "it would take longer than 0.3 s" in gap.why


@pytest.mark.parametrize(
    "content",
    [
        f'Thread 7 (idle): "MainThread"\n    f (a.py:{"1" * 5000})\n    g (a.py:2)\n',
        f"(Actor pid={'1' * 5000}) #0  0x1 in f () at a.c:1\n" * 2,
        JSON_SAMPLE.replace('"line": 3', f'"line": {"3" * 5000}') + "\n" + JSON_SAMPLE,
        JSON_SAMPLE[:-1] + "," + JSON_SAMPLE[1:-2] + f', "locals": [{{"name": "{"9" * 5000}"}}]}}]',
    ],
    ids=["py-spy", "prefix", "JSON", "locals"],
)
def test_numbers_of_thousands_of_digits(content: str) -> None:
    """They are none, and what stands beside them is read."""
    assert read_all(content)


@pytest.mark.parametrize("tool", ["py-spy", "faulthandler", "gdb", "pystack", "traceback"])
def test_terminal_escapes_in_names(tool: str) -> None:
    """A function that names itself as a terminal's command is a frame as any other."""
    escape = "\x1b]52;c;ZXZpbA==\x1b\\\x1b]0;evil\x07"
    text = SAMPLES[tool].replace("/job/train.py", f"/job/{escape}.py").replace("all_reduce", escape)

    assert tool in {dump.tool for dump in read_all(text)}
