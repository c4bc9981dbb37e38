"""The ranks are to meet through a file in a folder that does not exist.

torch tries to open it again and again, for as long as its timeout, and says nothing: it takes a
missing folder for a file that another rank has yet to make.
"""

from whyhang.analyzer.match import Kind, Signature, file_missing

SIGNATURE = Signature(
    id="init-file-missing",
    category="init-file-store",
    kind=Kind.CAUSE,
    level="setup",
    title="{path}, where the ranks are to meet: {what} does not exist for {who}{instead}",
    when=file_missing(),
    means=(
        "In init_process_group torch opens {path} again and again until its timeout; {what} does "
        "not exist for {who}{instead}."
    ),
    confidence="certain",
    remedies=(
        (
            "Make the folder on a file system that every host shares, before the start; or use "
            "tcp:// or env://."
        ),
    ),
    next_steps=("ls -la $(dirname {path})  # on every host, inside the container",),
    explains=(
        "init-missing-rank",
        "missing-rank-in-collective",
        "stuck-together",
        "storage-io-blocked",
    ),
)
