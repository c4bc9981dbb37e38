#!/bin/sh
# Starts one process per rank and waits for all of them: start.sh PYTHON PORT WORLD
set -u
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE="$3"
rank=0
while [ "$rank" -lt "$WORLD_SIZE" ]; do
    RANK=$rank LOCAL_RANK=$rank "$1" "$(dirname "$0")/sweep.py" &
    rank=$((rank + 1))
done
wait
