#!/bin/sh
# Starts the ranks of two nodes: start.sh PYTHON PORT
export MASTER_ADDR=127.0.0.1 MASTER_PORT="$2" WORLD_SIZE=2
for node in 0 1; do
    rank=$((node * 2)) # two devices per node, of which only the first is used now
    RANK=$rank LOCAL_RANK=0 "$1" "$(dirname "$0")/train.py" &
done
wait
