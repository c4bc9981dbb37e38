#!/bin/sh
# Starts the job: start.sh PYTHON PORT. It was called twice, from two terminals.
set -u
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=4
for rank in 0 1 2; do # rank 3 comes from a slower host
    for copy in first second; do
        RANK=$rank LOCAL_RANK=$rank "$1" "$(dirname "$0")/train.py" "$copy" &
    done
done
wait
