"""Read the GPU state of many hosts, beside a plain ElementTree parse of the same files.

``python benchmarks/gpu.py [--hosts 2000] [--gpus 8]`` writes ``nvidia-smi -q -x`` of each host,
as long as a real one (about 33 KB a GPU), one of them with a GPU that never launched. Then it
reads them with whyhang, and parses them with ``xml.etree.ElementTree`` into nothing, each in a
fresh process: wall time and peak memory.

The bars, at 2,000 hosts of 8 GPUs: under 60 s, under 500 MB, the right GPU named.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

PEER = """
import sys, time, resource
from pathlib import Path
from xml.etree import ElementTree
began, gpus = time.perf_counter(), 0
for path in sorted(Path(sys.argv[1]).rglob("*.xml")):
    gpus += len(ElementTree.parse(path).getroot().findall("gpu"))
taken = time.perf_counter() - began
print(gpus, taken, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
OURS = """
import json, sys, time, resource
from whyhang.analyzer.align import align
from whyhang.analyzer.findings.diagnose import diagnose
from whyhang.analyzer.job.identify import identify
from whyhang.collectors import READERS
from whyhang.collectors.files.folder import read
from whyhang.signatures import load
from whyhang.signatures.frames import TABLE
began = time.perf_counter()
facts = list(read([sys.argv[1]], readers=READERS))
taken = time.perf_counter() - began
report = diagnose(align(identify(facts), TABLE), load())
whole = time.perf_counter() - began
print(json.dumps([len(facts), taken, whole, report.headline,
                  resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


def main() -> int:
    """Write, read twice, compare; 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hosts", type=int, default=2000)
    parser.add_argument("--gpus", type=int, default=8)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="whyhang-gpu-") as folder:
        size = _write(Path(folder), options.hosts, options.gpus)
        print(f"{options.hosts:,} hosts x {options.gpus} GPUs, {size / 1e6:,.0f} MB of XML")
        gpus, taken, memory = map(float, _run(PEER, folder).split())
        print(f"  ElementTree.parse   {taken:7.1f} s  {memory:7.0f} MB  {gpus:,.0f} GPUs")
        facts, read, whole, headline, ours = json.loads(_run(OURS, folder))
        print(f"  whyhang, reading    {read:7.1f} s              {facts:,} facts")
        print(f"  whyhang, diagnosis  {whole:7.1f} s  {ours:7.0f} MB  {headline}")
        print(f"  {read / taken:.2f} of ElementTree's time")
    bars = {"60 s": whole < 60, "500 MB": ours < 500, "the GPU": "GPU 3 of node1007" in headline}
    if options.hosts <= 1007:
        del bars["the GPU"]
    for bar, kept in bars.items():
        if not kept:
            print(f"  MISSED: {bar}")
    return int(not all(bars.values()))


def _write(folder: Path, hosts: int, gpus: int) -> int:
    """Write the files; what a real one has beside the wanted values is filled in as padding."""
    from gpu_docs import node

    counters = "".join(
        f"\t\t\t<counter_{n}>\n\t\t\t\t<current>N/A</current>\n\t\t\t\t<pending>{n} us</pending>"
        f"\n\t\t\t</counter_{n}>\n"
        for n in range(370)
    )
    size = 0
    for number in range(hosts):
        changed = {3: {"ecc": "4", "busy": "0 %", "reset": "Yes"}} if number == 1007 else {}
        text = node(changed, host=f"node{number}", count=gpus)
        text = text.replace("\t\t<pci>\n", f"\t\t<padding>\n{counters}\t\t</padding>\n\t\t<pci>\n")
        path = folder / f"node{number}" / "nvidia-smi.xml"
        path.parent.mkdir()
        size += path.write_text(text)
    return size


def _run(program: str, folder: str) -> str:
    time.sleep(0.2)
    done = subprocess.run(
        [sys.executable, "-c", program, folder], capture_output=True, text=True, check=True
    )
    return done.stdout


if __name__ == "__main__":
    sys.exit(main())
