#!/bin/sh
# TaskProlog in slurm.conf: what costs next to nothing and is missing most often, for every job.
# Lines "export NAME=VALUE" on standard output go into the task's environment; what a job sets counts.
for pair in TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1 PYTHONUNBUFFERED=1 \
    "TORCH_FR_DUMP_TEMP_FILE=$SLURM_SUBMIT_DIR/fr-$SLURM_JOB_ID-rank_"; do
    name=${pair%%=*}
    eval "set=\${$name+set}"
    [ -n "$set" ] || echo "export $pair"
done
