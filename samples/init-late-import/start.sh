#!/bin/sh
# Starts one process per rank: start.sh PYTHON PORT
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=3
for rank in 0 1 2; do
    RANK=$rank LOCAL_RANK=$rank "$1" "$(dirname "$0")/train.py" &
done
wait
