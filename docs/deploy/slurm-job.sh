#!/bin/bash
#SBATCH --job-name=train
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --signal=B:USR1@300
# A batch script that watches its job. The first node watches the folder that all ranks write to, and
# looks at all nodes when nothing is written any more; five minutes before the time limit it keeps
# the evidence of a job that is still there.
logs=${WHYHANG_OUT:-$PWD/logs-$SLURM_JOB_ID}
mkdir -p "$logs"
export WHYHANG_HEARTBEAT_DIR=$logs

srun --output="$logs/rank%t.log" ${TRAIN:-torchrun --nnodes=2 --nproc-per-node=8 train.py} &
step=$!
whyhang watch "$logs" --slurm "$SLURM_JOB_ID" -o "$logs.md" -o "$logs.json" --save "$logs.tar.zst" \
    ${WHYHANG_OPTIONS:-} >"$logs.watch" 2>&1 &
watcher=$!
trap 'whyhang --slurm "$SLURM_JOB_ID" --save "$logs.end.tar.zst" -o "$logs.end.md" >/dev/null' USR1

wait $step
code=$?
while kill -0 $step 2>/dev/null; do # USR1 came: wait for the step itself
    wait $step
    code=$?
done
kill -TERM $watcher 2>/dev/null
wait $watcher 2>/dev/null
exit $code
