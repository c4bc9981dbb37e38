#!/bin/sh
# TaskEpilog in slurm.conf: when a task ended with an error, say why by what it left in its folder.
# Runs on the node as the job's user; it must end by itself, so it has a limit.
[ "${SLURM_PROCID:-0}" = 0 ] || exit 0
logs=${WHYHANG_OUT:-$SLURM_SUBMIT_DIR/logs-$SLURM_JOB_ID}
[ -d "$logs" ] || exit 0
timeout 60 whyhang "$logs" -o "$logs.epilog.md" >/dev/null 2>&1
exit 0
