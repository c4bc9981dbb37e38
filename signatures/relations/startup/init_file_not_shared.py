"""One path leads to different files on different hosts, so that the ranks never meet.

A local disk, /tmp, a container's own file system: each host makes a file of its own there, and
its ranks wait in it for the others.
"""

from whyhang.analyzer.match import Kind, Signature, file_apart

SIGNATURE = Signature(
    id="init-file-not-shared",
    category="init-file-store",
    kind=Kind.CAUSE,
    level="setup",
    title="{path}, where the ranks are to meet, is another file for {who} than for {others}",
    when=file_apart(),
    means=(
        "{who} and {others} open {path} and find different files (device and inode differ): the "
        "path is not on a file system that both share. Each side waits alone."
    ),
    confidence="certain",
    remedies=(
        "Use a path on a file system that every host and container mounts, or tcp:// or env://.",
    ),
    next_steps=("stat -c '%d %i' {path}; df {path}  # on every host, inside the container",),
    explains=("init-missing-rank", "missing-rank-in-collective", "stuck-together"),
)
