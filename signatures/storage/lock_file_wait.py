"""A process polls for a lock file.

Short waits are normal while another rank downloads or compiles. When the log of a rank ends
like this, the lock's holder hangs, or died and left the file.
"""

from whyhang.analyzer.match.log import Blames, log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="lock-file-wait",
    category="stale-lock-file",
    kind=Kind.CAUSE,
    title="{who} waited for the lock file {path}",
    when=log(
        r"Lock \d+ not acquired on (?P<path>\S+), waiting [\d.]+ seconds",
        blames=Blames.SPEAKER,
    ),
    unless=log(
        r"Lock \d+ acquired on ",
        blames=Blames.SPEAKER,
    ),
    means=(
        "The process polls for a lock that another one holds. If nobody does, the file was left "
        "behind and the wait never ends."
    ),
    confidence=0.4,
    remedies=("Find the holder (fuser PATH); if nobody holds it, remove the file.",),
    next_steps=("fuser -v {path}; ls -l {path}",),
    matches=(
        (
            "DEBUG:filelock:Lock 140234 not acquired on /data/cache/model.lock, waiting 0.05 "
            "seconds ..."
        ),
        "Lock 99 not acquired on /tmp/x.lock, waiting 0.1 seconds ...",
    ),
    misses=("DEBUG:filelock:Lock 140234 acquired on /data/cache/model.lock",),
)
