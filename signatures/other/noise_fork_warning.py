"""Python warns that forking a process with threads can deadlock the child.

True in principle: a lock that another thread held stays locked in the child. But every training
process has threads, so every DataLoader with fork prints it, and nearly all of them work. If a
DataLoader worker really hangs in a lock, its stack shows that.
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="noise-fork-warning",
    category="healthy",
    kind=Kind.NOISE,
    title="Python notes that a process with threads forks",
    when=log(
        (
            r"This process \(pid=\d+\) is multi-threaded, use of fork\(\) may lead to deadlocks "
            r"in the child"
        ),
        r"os\.fork\(\) was called\. os\.fork\(\) is incompatible with multithreaded code",
    ),
    means=(
        "Python 3.12 and later say this at every fork of a process with threads, that is for "
        "every DataLoader. It is a possibility in general and no finding here."
    ),
    confidence=0.7,
    links=("https://docs.python.org/3/library/os.html#os.fork",),
    matches=(
        (
            "DeprecationWarning: This process (pid=4711) is multi-threaded, use of fork() may "
            "lead to deadlocks in the child."
        ),
        (
            "RuntimeWarning: os.fork() was called. os.fork() is incompatible with multithreaded "
            "code, and JAX is multithreaded, so this will likely lead to a deadlock."
        ),
    ),
    misses=("RuntimeError: Cannot re-initialize CUDA in forked subprocess.",),
)
