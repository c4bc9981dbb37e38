"""PMIx could not use one of its storage forms and took another.

Permission and file errors from its gds and dstore parts appear in a good part of healthy jobs,
mostly in containers and with mixed versions.

Lost connections have other words (mpi-peer-lost).
"""

from whyhang.analyzer.match.log import log
from whyhang.analyzer.signature import Kind, Signature

SIGNATURE = Signature(
    id="mpi-noise-pmix",
    category="healthy",
    kind=Kind.NOISE,
    title="PMIx complained about its storage",
    when=log(
        r"PMIX ERROR: [\w-]+ in file \S*(?:gds_|dstore|ds12|ds21|shmem2)\S*",
        r"PMIX ERROR: (?:PMIX_ERR_)?NO[-_]PERMISSIONS in file",
    ),
    means="PMIx found another way; the job goes on.",
    confidence=0.9,
    matches=(
        "[n0042:20133] PMIX ERROR: PMIX_ERR_NO_PERMISSIONS in file dstore_base.c at line 238",
        "[n0042:20133] PMIX ERROR: ERROR in file gds_ds12_lock_pthread.c at line 168",
        "PMIX ERROR: PMIX_ERR_FILE_OPEN_FAILURE in file gds_shmem2.c at line 1056",
    ),
    misses=("[n0042:20133] PMIX ERROR: UNREACHABLE in file server/pmix_server.c at line 2198",),
)
