"""How long 1,000 hosts take: connecting, finding, looking, one bundle of all.

The channel is real (ClusterShell, one process a host), the far side is simulated by a script
that answers each order after 50 to 500 ms; 2 % of the hosts are dead: half refuse at once, half
never say a word. What is printed is measured; a dead host that is not named ends it with 1.

    python benchmarks/reaching_hosts.py [HOSTS]
"""

from __future__ import annotations

import base64
import json
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

from whyhang.collectors.files.bundle import MANIFEST, Entry, Manifest, archive, manifest_file
from whyhang.collectors.hosts.connections import Connections
from whyhang.collectors.hosts.conversation import Conversation
from whyhang.collectors.hosts.reach import Reach, ReachedHost
from whyhang.collectors.live.probes.probe import Options

DEAD = 0.02
RANKS = 8
PATIENCE = 4.0

FAR = r"""
# NAME PAUSE FOLDER: answers as a far side does; perl, as it starts in a millisecond
my ($name, $pause, $folder) = @ARGV;
$| = 1;
if ($pause eq "refuses") {
    print STDERR "ssh: connect to host $name port 22: Connection refused\n";
    exit 255;
}
if ($pause eq "silent") { sleep 600 }
sub rest { select(undef, undef, undef, $pause) }
sub say_file {
    for my $file (@_) {
        open(my $in, "<", "$folder/$file");
        print "\@whyhang1 $name . ", <$in>, "\n";
    }
}
rest();
print "\@whyhang1 $name ! alive\n";
<STDIN>;
say_file("$name.hello", "ready");
while (my $order = <STDIN>) {
    rest();
    say_file("found") if $order =~ /"do": "find"/;
    say_file("clock") if $order =~ /"do": "clock"/;
    say_file($name, "done") if $order =~ /"do": "look"/;
}
"""


def message(say: str, blob: bytes = b"", **fields: object) -> str:
    """Write what a far side says, as one line of base64."""
    return base64.b64encode(json.dumps({"say": say, **fields}).encode() + b"\n" + blob).decode()


def bundle(name: str) -> bytes:
    """Make what a host of eight ranks sends: 20 kilobytes."""
    noise = random.Random(name).randbytes(2500)
    files = {f"{name}/rank{rank}.json": noise for rank in range(RANKS)}
    files |= {f"{name}/own": random.Random(name).randbytes(18_000)}
    entries = tuple(Entry(path=path, kind="log", host=name) for path in files)
    manifest = Manifest(host=name, looks=2, files=entries)
    return archive({MANIFEST: manifest_file(manifest), **files}, 0.0)


def main(count: int) -> int:
    """Run it and print what it took."""
    chance = random.Random(7)
    names = [f"n{number}" for number in range(count)]
    dead = chance.sample(names, max(2, int(count * DEAD)))
    pauses = {name: f"{chance.uniform(0.05, 0.5):.2f}" for name in names}
    pauses |= {name: ("refuses", "silent")[number % 2] for number, name in enumerate(dead)}
    with tempfile.TemporaryDirectory() as folder:
        for say, fields in {
            "ready": {},
            "found": {"jobs": [{"name": "job", "ranks": RANKS, "size": count * RANKS}]},
            "done": {},
            "clock": {"sent": 0, "now": 0},
        }.items():
            Path(folder, say).write_text(message(say, **fields))
        for name in names:
            Path(folder, f"{name}.hello").write_text(message("hello", node=name, has=True))
            Path(folder, name).write_text(message("part", bundle(name), number=0))
        script = Path(folder, "far.pl")
        script.write_text(FAR)
        hosts = tuple(
            ReachedHost(name=name, argv=("perl", str(script), name, pauses[name], folder))
            for name in names
        )
        reach = Reach(kind="ssh", sentence="", hosts=hosts, patience=PATIENCE)
        began = last = time.monotonic()
        steps = {}
        with Connections(reach, 60.0, lambda _: None) as connections:
            talk = Conversation(connections, Options())
            for step in ("find", "look"):
                getattr(talk, step)()
                steps[step], last = time.monotonic() - last, time.monotonic()
            gaps = {h.name: h.gap for h in connections.hosts if h.gap is not None}
            whole = talk.parts.bundle(list(gaps.values()), names)
        took = time.monotonic() - began
    cpu = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    own, theirs = (used.ru_utime + used.ru_stime for used in cpu)
    unnamed = sorted(set(dead) ^ set(gaps))
    size = sum(map(len, whole.files.values()))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{count:,} hosts, {len(dead)} dead, on {os.cpu_count()} processors: {took:.1f} s")
    print(", ".join(f"{step} {seconds:.1f} s" for step, seconds in steps.items()))
    print(
        f"{len(whole.manifest.files):,} files, {size / 1e6:.0f} MB in one bundle, {memory:.0f} MB"
    )
    print(f"processor time: {own:.1f} s of its own, {theirs:.1f} s of the simulated hosts")
    print(f"dead hosts named: {len(gaps)} of {len(dead)}")
    if unnamed:
        print(f"  wrong: {len(unnamed)}, {', '.join(unnamed[:5])} among them")
    return 1 if unnamed else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 1000))
